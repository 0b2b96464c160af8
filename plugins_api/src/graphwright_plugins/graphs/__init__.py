"""What is known of an FX graph: values and memory of its nodes, what it writes to, its symbols, a hash of it."""
