"""Python values to variables."""
