"""One frame: from its first call to the entry that stands in for it."""
