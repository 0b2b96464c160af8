"""Objects whose end is an event: what has a `__del__` (generators, coroutines and files among them) runs code when its
last reference goes, and a weak reference answers otherwise then.

Capture does not count references. Where the traced program lets go of such an object, and may hold the last reference
to it, the graph breaks and the instruction runs in eager, so that the code runs when it does in eager.
"""

from __future__ import annotations

import collections
import functools
import itertools
import types
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch

import graphwright._native as _native
import graphwright.graph_breaks as gb
from graphwright.variables.base import LazyVariable, Tx, VariableTracker

_LONG_LIVED = (
    torch.Tensor,
    torch.nn.Module,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
)
"""Objects that torch and Python themselves have weak references to, and that a program lets go of for their memory."""
_DEPTH, _WIDTH = 3, 64
"""How far, and at how many of its items, a container is looked into."""


def has_finalizer(value: VariableTracker) -> bool:
    """Whether a value from outside runs code when it goes; those made while tracing do not, or break the graph."""
    if isinstance(value, LazyVariable):
        return runs_code_at_end(value.value)
    return value.source is not None and hasattr(value.realize().python_type(), "__del__")


def end_is_seen(value: VariableTracker) -> bool:
    """Whether the program sees when what the frame was given, or a list made of it, goes: it may hold it alone."""
    if value.has_weak_reference:
        return True
    items = getattr(value, "items", None)
    if value.source is None and type(items) is list:  # a list or tuple made inside
        return any(map(has_finalizer, items))
    if not isinstance(value, LazyVariable) or value.source.accessor != "local":
        return False
    real = value.value
    return runs_code_at_end(real) or (not isinstance(real, _LONG_LIVED) and _has_weak_reference(real))


def _has_weak_reference(value: object) -> bool:
    """Whether the program, and not only a guard, has a weak reference to an object."""
    callbacks = (reference.__callback__ for reference in weakref.getweakrefs(value))
    return not all(isinstance(getattr(callback, "__self__", None), _native.Life) for callback in callbacks)


def runs_code_at_end(value: object, depth: int = _DEPTH) -> bool:
    """Whether an object, or what only it may hold, has a `__del__`."""
    if hasattr(type(value), "__del__"):
        return True
    return depth > 0 and any(runs_code_at_end(held, depth - 1) for held in itertools.islice(_held_by(value), _WIDTH))


def _held_by(value: Any) -> Iterator[object]:
    kind = type(value)
    if kind in (list, tuple, set, frozenset, collections.deque):
        yield from value
    elif kind is dict:
        yield from value.values()
    elif kind is functools.partial:
        yield from (value.func, *value.args, *value.keywords.values())
    elif kind is types.FunctionType:
        yield from (value.__closure__ or ()) + (value.__defaults__ or ())
    elif kind is types.MethodType:
        yield value.__self__
    elif kind is types.CellType:
        try:
            yield value.cell_contents
        except ValueError:  # it is empty
            return


def let_go(tx: Tx, value: VariableTracker | None) -> None:
    """Note that a container or an object is about to lose a value.

    Raises:
        GraphBreak: the value runs code when its last reference goes, and this may be it.
    """
    if value is not None and value.source is not None and has_finalizer(value):
        break_for(tx, value)


def break_for(tx: Tx, value: VariableTracker) -> None:
    """Break the graph where the program lets go of a value."""
    break_for_type(tx, type(value.value) if isinstance(value, LazyVariable) else value.python_type())


def break_for_type(tx: Tx, cls: type) -> None:
    """Break the graph where the program lets go of an object of a class."""
    detail = f"letting go of a {cls.__name__}, which the program may see: by a __del__, or a weak reference"
    tx.graph_break(gb.UNKNOWN_CALL, detail)


def lost(watched: Iterable[VariableTracker], held: Iterable[VariableTracker]) -> Iterator[VariableTracker]:
    """Those of the watched values that are none of these."""
    known = {id(_looked_at(value)) for value in held}
    return (value for value in watched if id(_looked_at(value)) not in known)


def _looked_at(value: VariableTracker) -> VariableTracker:
    return value.realize() if isinstance(value, LazyVariable) and value.is_realized() else value
