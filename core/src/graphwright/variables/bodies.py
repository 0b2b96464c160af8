"""Tracing the function that an operation takes into a graph of its own.

A body may use whatever the traced program knows, but it may change nothing outside of itself: who calls it decides how
often it runs, and when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import graphwright.graph_breaks as gb
from graphwright.exc import GraphBreak, ObservedException
from graphwright.variables.base import Args, Tx, VariableTracker
from graphwright.variables.structures import fakes_of, nodes_of, structure_of
from graphwright.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from torch import fx


@dataclass(frozen=True)
class TracedBody:
    """A function as a graph.

    Attributes:
        module: takes the tensors it was given as arguments, then the operands.
        operands: the nodes of the graph around that it uses.
        result: what it gives, as a structure of fakes and literals.
    """

    module: fx.GraphModule
    operands: tuple[fx.Node, ...]
    result: Any


Run = Callable[[], VariableTracker]


def trace_body(tx: Tx, what: str, roots: Args, run: Run, *, flat: bool = False) -> TracedBody:
    """Trace what `run` calls into a body that returns tensors, literals, and tuples, lists and dicts of them.

    Args:
        what: the operation, for messages.
        roots: the function and its arguments.
        flat: whether the graph returns a tuple of the tensors, and not the structure that the function returns.

    Raises:
        GraphBreak: it cannot be traced, or it does what a body may not do.
    """

    def run_to_structure() -> Any:
        return structure_of(tx, run(), f"{what} of a function whose result has a part")

    structure = _traced(tx, what, roots, run_to_structure)
    return _closed(tx, what, nodes_of(structure) if flat else structure, fakes_of(structure))


def trace_in_place(
    tx: Tx, what: str, roots: Args, run: Run
) -> tuple[TracedBody, VariableTracker, Sequence[TensorVariable]]:
    """Trace what `run` calls into a body of a function that the operation just calls, once.

    Returns:
        The body, whose graph returns a tuple of tensors; the function's result, of whatever kind; and the tensors in
        it that the body made, in the order of that tuple. They are to be given a new place: `OutputGraph.take_over`.
    """
    result = _traced(tx, what, roots, lambda: run().realize())
    bodies = tx.capture.output.bodies
    found = _reachable([result]).values()
    made = [v for v in found if isinstance(v, TensorVariable) and v.node.graph is bodies.graph]
    fakes = tuple(v.fake for v in made)
    return _closed(tx, what, tuple(v.node for v in made), fakes), result, made


def _traced(tx: Tx, what: str, roots: Args, run: Callable[[], Any]) -> Any:
    """What `run` gives; the body stays open."""
    output, effects = tx.capture.output, tx.capture.effects
    watch = _Watch(tx, roots)
    state = output.ambient_state()
    calls = len(effects.later_calls), len(effects.class_attributes)
    output.bodies.open()
    try:
        with effects.watching(watch):
            result = run()
        changed = watch.changed()
        if changed is None and calls != (len(effects.later_calls), len(effects.class_attributes)):
            changed = "a class, or what is logged"
        if changed is None and output.ambient_state() != state:
            changed = "grad mode or autocast"
        if changed is not None:
            tx.graph_break(gb.HIGHER_ORDER, f"{what} of a function that changes {changed}")
    except ObservedException as signal:
        output.bodies.abandon()
        tx.graph_break(gb.HIGHER_ORDER, f"{what} of a function that raises {signal.value.type_name()}")
    except GraphBreak as signal:
        signal.hooked = False  # whoever calls the function must find it the same each time
        output.bodies.abandon()
        raise
    return result


def _closed(tx: Tx, what: str, nodes: Any, fakes: Any) -> TracedBody:
    closed = tx.capture.output.close_body(nodes)
    if closed.writes_outside:
        tx.graph_break(gb.HIGHER_ORDER, f"{what} of a function that writes to a tensor it did not make")
    return TracedBody(closed.module, closed.operands, fakes)


# ---------------------------------------------------------------- changes of what is outside


class _Watch:
    """Notices changes of objects that exist before a body runs."""

    def __init__(self, tx: Tx, roots: Args) -> None:
        self._outside = _reachable([*roots, *_frame_values(tx)])
        self._iterators = {v: _position(v) for v in self._outside.values() if _is_iterator(v)}
        self._found: VariableTracker | None = None

    def note(self, variable: VariableTracker) -> None:
        """A variable is about to change."""
        if variable.source is not None or id(variable) in self._outside:
            self._found = self._found or variable

    def changed(self) -> str | None:
        """What changed, in words."""
        if self._found is not None:
            found = self._found
            return f"{found.source}" if found.source is not None else f"a {found.type_name()} made outside of it"
        moved = next((v for v, before in self._iterators.items() if _position(v) != before), None)
        return None if moved is None else f"the position of a {moved.type_name()}"


def _frame_values(tx: Any) -> Iterable[Any]:
    frame = tx
    while frame is not None:
        yield from (frame.locals, frame.cells, frame.stack)
        frame = frame.parent


_NOT_VARIABLES = frozenset({"value", "real", "fake", "node", "fn", "source"})
"""Attributes of variables that hold the user's own values, or nodes."""


def _reachable(values: Iterable[Any]) -> dict[int, VariableTracker]:
    """All variables that are reached from some values, by id."""
    found: dict[int, VariableTracker] = {}
    met: set[int] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if id(value) in met:
            continue
        met.add(id(value))
        if isinstance(value, VariableTracker):
            found[id(value)] = value
            pending.extend(_held_by(value))
        elif isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, (list, tuple, set, deque)):
            pending.extend(value)
        elif hasattr(value, "locals") and hasattr(value, "cells"):  # the frame of a generator
            pending.extend((value.locals, value.cells, value.stack))
        elif type(value).__module__.startswith("graphwright.variables"):
            pending.extend(getattr(value, "__dict__", {}).values())
            pending.extend(getattr(value, name, None) for name in getattr(type(value), "__slots__", ()))
    return found


def _held_by(variable: VariableTracker) -> Iterable[Any]:
    for name, value in vars(variable).items():
        if name not in _NOT_VARIABLES or isinstance(value, VariableTracker):
            yield value


def _is_iterator(variable: VariableTracker) -> bool:
    kind = type(variable)
    return kind.next_item is not VariableTracker.next_item or hasattr(kind, "next_or_none")


def _position(variable: VariableTracker) -> tuple[Any, ...]:
    """Something that differs once an iterator has moved."""
    frame = getattr(variable, "frame", None)
    state = [value if isinstance(value, int) else id(value) for value in vars(variable).values()]
    lengths = [len(value) for value in vars(variable).values() if isinstance(value, (list, deque))]
    return (*state, *lengths, getattr(frame, "steps", None))
