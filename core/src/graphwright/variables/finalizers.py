"""Objects whose end is an event: what has a `__del__` (generators, coroutines and files among them) runs code when its
last reference goes.

Capture does not count references. Where the traced program lets go of such an object, and may hold the last reference
to it, the graph breaks and the instruction runs in eager, so that the code runs when it does in eager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import graphwright.graph_breaks as gb
from graphwright.variables.base import LazyVariable, Tx, VariableTracker


def has_finalizer(value: VariableTracker) -> bool:
    """Whether a value from outside runs code when it goes; those made while tracing do not, or break the graph."""
    if isinstance(value, LazyVariable) and not value.is_realized():
        return hasattr(type(value.value), "__del__")
    return value.source is not None and hasattr(value.realize().python_type(), "__del__")


def let_go(tx: Tx, value: VariableTracker | None) -> None:
    """Note that a container or an object is about to lose a value.

    Raises:
        GraphBreak: the value runs code when its last reference goes, and this may be it.
    """
    if value is not None and has_finalizer(value):
        tx.graph_break(gb.UNKNOWN_CALL, f"letting go of a {type_name(value)}, which has a __del__")


def type_name(value: VariableTracker) -> str:
    """The name of a value's type, without looking at the value."""
    if isinstance(value, LazyVariable) and not value.is_realized():
        return type(value.value).__name__
    return value.realize().type_name()


def lost(watched: Iterable[VariableTracker], held: Iterable[VariableTracker]) -> Iterator[VariableTracker]:
    """Those of the watched values that are none of these."""
    known = {id(_looked_at(value)) for value in held}
    return (value for value in watched if id(_looked_at(value)) not in known)


def _looked_at(value: VariableTracker) -> VariableTracker:
    return value.realize() if isinstance(value, LazyVariable) and value.is_realized() else value
