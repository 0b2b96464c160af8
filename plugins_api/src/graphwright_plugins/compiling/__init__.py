"""One captured graph on its way through a backend, and what is asked of the backend around that."""
