"""The builtin container inside an object of a subclass."""

from __future__ import annotations

from collections import OrderedDict, deque

from graphwright.variables.base import VariableTracker
from graphwright.variables.dict import DictVariable
from graphwright.variables.sequence import DequeVariable, ListVariable, TupleVariable
from graphwright.variables.set import SetVariable


def new_storage(layout: type) -> VariableTracker:
    """An empty container of a builtin type."""
    if layout in (dict, OrderedDict):
        return DictVariable.new(layout)
    if layout is list:
        return ListVariable([])
    if layout is set:
        return SetVariable.new()
    if layout is deque:
        return DequeVariable([])
    return TupleVariable([])
