"""What the memory tests share: fresh programs, weak references to all their parts, and the size of the process."""

from .measure import collect, growth, resident
from .programs import PROGRAMS, fresh
from .references import References

__all__ = ["PROGRAMS", "References", "collect", "fresh", "growth", "resident"]
