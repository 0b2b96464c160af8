"""Compiled graphs on disk: the folder, its settings, and word of what became of each look into it."""
