"""Containers that came in from outside: one variable for each, guarded by type, its items looked at when asked for."""

from __future__ import annotations

import collections
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.sources import Source
from graphwright.variables.base import Tx, VariableTracker
from graphwright.variables.dict import DictVariable
from graphwright.variables.sequence import DequeVariable, ListVariable, TupleVariable
from graphwright.variables.set import FrozenSetVariable, SetVariable


def outside_container(tx: Tx, layout: type, value: Any, source: Source) -> VariableTracker:
    """The variable of a container, or of the container inside an object of a subclass.

    Args:
        layout: the builtin class whose contents it has.
    """
    tx.capture.guards.add(source, "type", type(value))
    if issubclass(layout, dict):
        return DictVariable.outside(value, source, layout)
    if layout is list:
        return ListVariable.outside(tx, value, source)
    if issubclass(layout, tuple):
        return TupleVariable.outside(tx, value, source)
    if layout is collections.deque:
        return DequeVariable.outside(tx, value, source)
    if layout is set:
        return SetVariable.outside(tx, value, source)
    if layout is frozenset:
        return FrozenSetVariable.outside(tx, value, source)
    tx.graph_break(gb.UNSUPPORTED_VALUE, f"a {type(value).__name__} from outside")
