"""Identity and equality of variables, and comparison of sequences item by item."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

import graphwright.graph_breaks as gb
from graphwright.variables.base import Tx, VariableTracker


def same_object(tx: Tx, a: VariableTracker, b: VariableTracker) -> bool:
    """`a is b`; guards that two different outside objects stay different."""
    a, b = a.realize(), b.realize()
    if a is b:
        return True
    if a.python_type() is not b.python_type():
        return False
    first, second = known_object(a), known_object(b)
    if first is not UNKNOWN and first is second:
        if a.source is not b.source and _may_be_copies(first):
            tx.graph_break(gb.UNKNOWN_COMPARISON, f"identity of two equal values of type {type(first).__name__}")
        return True
    constants = a.is_python_constant() and b.is_python_constant()
    if a.source is not None and b.source is not None and not constants:
        tx.capture.guards.distinct(a.source, b.source)
    return False


def _may_be_copies(value: Any) -> bool:
    """Whether Python may hold several objects equal to a value, so that a guard on equality leaves identity open."""
    if type(value) is int:
        return not _FIRST_SMALL <= value <= _LAST_SMALL
    return type(value) in (float, complex)


_FIRST_SMALL, _LAST_SMALL = -5, 256
"""The integers that CPython keeps one object of."""


class _Unknown:
    """The type of `UNKNOWN`."""


UNKNOWN = _Unknown()
"""Stands for an object that capture does not have in hand."""


def known_object(vt: VariableTracker) -> Any:
    """The very object that a constant, function, class or module variable stands for, or UNKNOWN."""
    if vt.is_python_constant():
        return vt.as_python_constant()
    for name in ("fn", "value"):
        found = getattr(vt, name, None)
        if found is not None and not isinstance(found, VariableTracker):
            return found
    return UNKNOWN


def truth_of_comparison(tx: Tx, result: VariableTracker) -> bool:
    """The truth of what a comparison gave; a tensor cannot decide how containers compare."""
    result = result.realize()
    if issubclass(result.python_type(), torch.Tensor):
        tx.graph_break(gb.UNKNOWN_COMPARISON, "comparing containers asks for the truth of a tensor comparison")
    return result.truth(tx)


def compare(tx: Tx, op: Callable[[Any, Any], Any], a: VariableTracker, b: VariableTracker) -> VariableTracker:
    """`op(a, b)` by the table of operators."""
    return tx.call(tx.wrap(op), [a, b]).realize()


def equal(tx: Tx, a: VariableTracker, b: VariableTracker) -> bool:
    """Whether two items are the same object or equal, as containers ask."""
    a, b = a.realize(), b.realize()
    # Whether two numbers that vary are one object would fix both; equality says all about numbers.
    if not (a.varies or b.varies) and same_object(tx, a, b):
        return True
    return truth_of_comparison(tx, compare(tx, operator.eq, a, b))


def find(tx: Tx, items: Iterable[VariableTracker], wanted: VariableTracker) -> int:
    """The position of the first item equal to `wanted`, or -1."""
    for position, item in enumerate(items):
        if equal(tx, item, wanted):
            return position
    return -1


def compare_sequences(
    tx: Tx,
    op: Callable[[Any, Any], Any],
    first: Sequence[VariableTracker],
    second: Sequence[VariableTracker],
    *,
    length_decides: bool,
) -> VariableTracker:
    """Compare as lists and tuples do: the first items that differ decide, then the lengths.

    Args:
        tx: the translator.
        op: one of the six comparison functions of `operator`.
        first: items of the left side; read anew at each step, since comparing may change them.
        second: items of the right side.
        length_decides: whether `==` and `!=` look at the lengths first (lists do, tuples do not).
    """
    if length_decides and len(first) != len(second) and op in (operator.eq, operator.ne):
        return tx.wrap(op is operator.ne)
    position = 0
    while position < len(first) and position < len(second):
        a, b = first[position], second[position]
        if not equal(tx, a, b):
            if position >= len(first) or position >= len(second):  # comparing took them away
                break
            if op is operator.eq or op is operator.ne:
                return tx.wrap(op is operator.ne)
            return compare(tx, op, a, b)
        position += 1
    return tx.wrap(op(len(first), len(second)))


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "__lt__": operator.lt,
    "__le__": operator.le,
    "__eq__": operator.eq,
    "__ne__": operator.ne,
    "__gt__": operator.gt,
    "__ge__": operator.ge,
}
"""The rich comparison methods and their functions."""
