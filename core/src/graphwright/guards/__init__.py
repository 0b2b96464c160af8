"""What must hold for an entry to be used again."""
