"""The variables of Python's sequences, in one place for those that make them."""

from __future__ import annotations

from graphwright.variables.deque import DequeVariable
from graphwright.variables.list import ListVariable
from graphwright.variables.ranges import RangeVariable, SliceVariable, slice_value
from graphwright.variables.tuple import TupleVariable, as_tuple, is_structseq, is_tuple_class, make_tuple

__all__ = [
    "DequeVariable",
    "ListVariable",
    "RangeVariable",
    "SliceVariable",
    "TupleVariable",
    "as_tuple",
    "is_structseq",
    "is_tuple_class",
    "make_tuple",
    "slice_value",
]
