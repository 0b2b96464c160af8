"""Programs whose inputs change their sizes, and what runs them."""
