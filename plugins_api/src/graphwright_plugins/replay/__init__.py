"""One graph in a folder with all that its backend was given, and running a backend alone on it."""
