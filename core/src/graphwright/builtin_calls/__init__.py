"""What builtin functions, operators and torch functions do to variables."""
