"""The symbolic interpreter: runs bytecode on variables instead of values."""
