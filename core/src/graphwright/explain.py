"""`explain(fn)(*args)`: capture a function afresh and tell what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import fx

import graphwright.events as events
from graphwright.compiler import CompileSpec, make_compiler
from graphwright.exc import CodeLocation
from graphwright_plugins import Backend, GraphCompiler, PartitionPlan, resolve_backend

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
    plans: list[PartitionPlan] = field(default_factory=list)
    """How the graphs would be cut for the backend that was named; empty where none was."""
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
        lines += _section("Partitions", [str(plan).replace("\n", "\n     ") for plan in self.plans])
        lines += _section("Guards", self.guards)
        return "\n".join(lines)


def _section(title: str, items: Sequence[object]) -> list[str]:
    return [f"{title}:", *(f"  {number}. {item}" for number, item in enumerate(items, 1))] if items else []


def _op_name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", None) or str(target)


def explain(
    fn: Any,
    *,
    dynamic: bool | None = None,
    backend: str | Backend | GraphCompiler | None = None,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Explanation]:
    """Tell what is captured of a function, and why no more.

    Args:
        fn: Anything `graphwright.compile` takes, compiled already or not.
        dynamic: As for `graphwright.compile`.
        backend: A backend, as for `graphwright.compile`. It compiles nothing; it is asked which nodes it does, and the
            explanation tells how each graph would be cut.
        options: Its options.
        mode: Its mode.

    Returns:
        A function that calls `fn` once, freshly compiled, with its arguments, and returns the `Explanation`. What `fn`
        raises goes through.

    Raises:
        CompileArgumentError: `fn` is of no kind that can be compiled.
        graphwright_plugins.PluginError: the backend, one of its options or its mode is wrong, or it cannot work here.
    """
    resolved = None if backend is None else resolve_backend(backend, options, mode=mode)
    plans: list[PartitionPlan] = []

    def keep_graph(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        if resolved is not None:
            plans.extend(resolved.plans(gm, example_inputs))
        return gm.forward

    # A backend made for this call: nothing captured before fits, and nothing captured here is used later.
    with events.collected() as at_once:
        compiled = make_compiler(CompileSpec(keep_graph, dynamic=dynamic)).compile(fn)

    def run(*args: Any, **kwargs: Any) -> Explanation:
        plans.clear()
        with events.collected() as found:
            out = compiled(*args, **kwargs)
        return replace(_explanation(out, [*at_once, *found]), plans=list(plans))

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
