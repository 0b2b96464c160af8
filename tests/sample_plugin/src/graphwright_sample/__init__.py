"""The smallest complete Graphwright backend."""
