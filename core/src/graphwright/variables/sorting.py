"""Sorting and extremes, by Python's own algorithms on stand-ins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphwright.exc import NotConstant
from graphwright.variables.base import Tx, VariableTracker, is_the
from graphwright.variables.method_table import index_value, run_model
from graphwright.variables.standin import Orderable


def _is_none(vt: VariableTracker) -> bool:
    return is_the(vt, None)


def keys_of(tx: Tx, items: Sequence[VariableTracker], key: VariableTracker | None) -> list[VariableTracker]:
    """What the items are compared by: `key` called on each, in order."""
    key = key.realize() if key is not None else None
    if key is None or _is_none(key):
        return [item.realize() for item in items]
    return [tx.call(key, [item]).realize() for item in items]


def orderables(tx: Tx, keys: list[VariableTracker]) -> list[Any]:
    """Real objects that order as the keys do."""
    try:
        return [k.as_python_constant() for k in keys]
    except NotConstant:
        return [Orderable(tx, k) for k in keys]


def sorted_items(
    tx: Tx, items: Sequence[VariableTracker], key: VariableTracker | None, reverse: VariableTracker | None
) -> list[VariableTracker]:
    """The items in order, stable."""
    backwards = bool(run_model(tx, _as_flag, index_value(tx, reverse))) if reverse is not None else False
    ranks = orderables(tx, keys_of(tx, items, key))
    order = run_model(tx, sorted, range(len(items)), key=ranks.__getitem__, reverse=backwards)
    return [items[i] for i in order]


def _as_flag(value: Any) -> bool:
    """What `sorted` makes of its `reverse` argument, or its error."""
    sorted((), reverse=value)
    return bool(value)


def extreme(
    tx: Tx, pick: Callable[..., Any], items: Sequence[VariableTracker], key: VariableTracker | None
) -> VariableTracker:
    """`min` or `max` (`pick`) of at least one item: the first of equals."""
    ranks = orderables(tx, keys_of(tx, items, key))
    chosen: int = run_model(tx, pick, range(len(items)), key=ranks.__getitem__)
    return items[chosen]
