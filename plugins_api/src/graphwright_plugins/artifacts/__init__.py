"""Compiling by way of the artifact store: the key of a graph, looking up, loading and saving."""
