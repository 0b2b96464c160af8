"""`explain(fn)(*args)`: capture a function afresh and tell what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx

import graphwright.events as events
from graphwright.compiler import CompileSpec, make_compiler
from graphwright.exc import CodeLocation

_CALLS = ("call_function", "call_method", "call_module")


@dataclass(frozen=True)
class BreakReason:
    """Why and where a graph ended before its function did."""

    reason: str
    """What was met, in one sentence."""
    gw_id: str
    """The catalogue's id."""
    location: CodeLocation | None
    """Where in the user's code."""
    remedy: str
    """What to do about it."""
    user_stack: tuple[CodeLocation, ...] = ()
    """The user's calls that led there, outermost first."""

    def __str__(self) -> str:
        stack = "".join(f"\n      {line}" for line in events.shown_stack(self.user_stack))
        return f"{self.gw_id} {self.location}: {self.reason}\n      remedy: {self.remedy}{stack}"


@dataclass(frozen=True)
class Explanation:
    """What one call of a freshly compiled function did."""

    out: Any
    """What the call returned."""
    graphs: list[fx.GraphModule]
    """The graphs, in the order in which they were captured."""
    break_reasons: list[BreakReason]
    """Where graphs ended early, or frames were given up."""
    skipped: list[str]
    """Functions left to the interpreter as a whole, with the reason."""
    guards: list[object]
    """The conditions under which what was captured may be used again; each prints as a line."""
    compile_time_s: float
    """Seconds spent capturing and in the backend."""
    ops_per_graph: list[list[Any]] = field(init=False)
    """The targets of the calls in each graph."""

    def __post_init__(self) -> None:
        ops = [[node.target for node in graph.graph.nodes if node.op in _CALLS] for graph in self.graphs]
        object.__setattr__(self, "ops_per_graph", ops)

    @property
    def graph_count(self) -> int:
        """How many graphs there are."""
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        """How many times a graph ended early, or a frame was given up."""
        return len(self.break_reasons)

    @property
    def op_count(self) -> int:
        """How many calls there are in all graphs together."""
        return sum(map(len, self.ops_per_graph))

    def __str__(self) -> str:
        lines = [
            f"Graphs: {self.graph_count}   Graph breaks: {self.graph_break_count}   Ops: {self.op_count}   "
            f"Guards: {len(self.guards)}   Time: {self.compile_time_s:.3f} s"
        ]
        lines += _section("Graph breaks", self.break_reasons)
        lines += _section("Left to the interpreter", self.skipped)
        lines += _section("Ops per graph", [", ".join(map(_op_name, ops)) or "none" for ops in self.ops_per_graph])
        lines += _section("Guards", self.guards)
        return "\n".join(lines)


def _section(title: str, items: Sequence[object]) -> list[str]:
    return [f"{title}:", *(f"  {number}. {item}" for number, item in enumerate(items, 1))] if items else []


def _op_name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", None) or str(target)


def explain(fn: Any, *, dynamic: bool | None = None) -> Callable[..., Explanation]:
    """Tell what is captured of a function, and why no more.

    Args:
        fn: Anything `graphwright.compile` takes, compiled already or not.
        dynamic: As for `graphwright.compile`.

    Returns:
        A function that calls `fn` once, freshly compiled, with its arguments, and returns the `Explanation`. What `fn`
        raises goes through.

    Raises:
        CompileArgumentError: `fn` is of no kind that can be compiled.
    """

    def keep_graph(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        return gm.forward

    # A backend made for this call: nothing captured before fits, and nothing captured here is used later.
    compiled = make_compiler(CompileSpec(keep_graph, dynamic=dynamic)).compile(fn)

    def run(*args: Any, **kwargs: Any) -> Explanation:
        with events.collected() as found:
            out = compiled(*args, **kwargs)
        return _explanation(out, found)

    return run


def _explanation(out: Any, found: list[events.Event]) -> Explanation:
    return Explanation(
        out=out,
        graphs=[event.graph_module for event in found if isinstance(event, events.GraphCaptured)],
        break_reasons=[
            BreakReason(event.reason, event.gw_id, event.location, event.remedy, event.user_stack)
            for event in found
            if isinstance(event, events.GraphBroke)
        ],
        skipped=[
            f"{event.function} ({event.location}): {event.reason}"
            for event in found
            if isinstance(event, events.FrameSkipped)
        ],
        guards=[guard for event in found if isinstance(event, events.GuardsBuilt) for guard in event.guards],
        compile_time_s=sum(event.seconds for event in found if isinstance(event, events.FrameFinished)),
    )
