"""Random small programs over tensors and Python objects, and the comparison of their compiled runs with eager ones."""
