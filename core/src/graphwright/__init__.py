"""Graphwright: a plugin-based compiler framework for PyTorch programs."""
