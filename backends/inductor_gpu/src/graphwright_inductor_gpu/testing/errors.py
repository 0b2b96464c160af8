"""What goes wrong in the harness itself, as opposed to the compiler that it drives."""

from __future__ import annotations


class HarnessError(RuntimeError):
    """The harness cannot stand in for something that a GPU would do."""
