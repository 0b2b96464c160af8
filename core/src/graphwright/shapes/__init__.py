"""Sizes and numbers that vary: which ones become symbols, where symbols are read, and what guards hold them."""
