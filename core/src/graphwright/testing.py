"""Probes for tests: a backend that counts, and one assertion that compares compiled code with eager.

def test_addition():
    assert_captures(lambda x, y: x + y, torch.ones(2), torch.ones(2), graphs=1, ops=1)
"""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

import graphwright.events as events
from graphwright.compiler import CompileSpec, make_compiler
from graphwright.likeness import Likeness, identity_pattern, random_states, seed_all
from graphwright_plugins import GraphCompiler, lookup_backend

_CALLS = ("call_function", "call_method", "call_module")


class CompileCounter:
    """A backend that counts graphs and the calls in them, and hands on to another.

    Attributes:
        frame_count: How many graphs were compiled.
        op_count: How many calls there are in them.
        graphs: The graphs.
    """

    def __init__(self, inner: str | GraphCompiler | None = None) -> None:
        """Take the backend to hand on to; by default graphs run as they are."""
        self._inner = lookup_backend(inner) if isinstance(inner, str) else inner
        self.graphs: list[fx.GraphModule] = []
        self.frame_count = 0
        self.op_count = 0

    def __call__(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Count a graph and compile it."""
        self.frame_count += 1
        self.op_count += sum(node.op in _CALLS for node in gm.graph.nodes)
        self.graphs.append(copy.deepcopy(gm) if self._inner is not None else gm)  # the inner backend may change it
        return gm.forward if self._inner is None else self._inner(gm, list(example_inputs))

    def clear(self) -> None:
        """Count from zero."""
        self.graphs.clear()
        self.frame_count = self.op_count = 0


@dataclass(frozen=True)
class Outcome:
    """What one call did."""

    result: Any
    """What it returned, or the exception it raised."""
    raised: bool
    """Whether it raised."""
    printed: str
    """What it printed, to stdout and stderr."""
    args: tuple[Any, ...]
    """The arguments afterwards, positional and keyword."""
    target: Any
    """The function or module afterwards."""
    random_states: tuple[Any, ...]
    """The states of the random generators afterwards."""


def run_once(target: Any, call: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], seed: int) -> Outcome:
    """Call something and record everything about it that a user could see."""
    printed = io.StringIO()
    seed_all(seed)
    raised = False
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            result = call(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  it is what we compare
            result, raised = error, True
    return Outcome(result, raised, printed.getvalue(), (*args, kwargs), target, random_states())


def assert_same_outcome(got: Outcome, want: Outcome, *, rtol: float = 0.0, atol: float = 0.0, label: str = "") -> None:
    """Require that two calls did the same.

    Raises:
        AssertionError: They did not; says where they first differ.
    """
    prefix = f"{label}: " if label else ""
    if got.raised and not want.raised:
        raise AssertionError(f"{prefix}raised {got.result!r}, eager returned {want.result!r}") from got.result
    alike = Likeness(rtol, atol)
    difference = (
        alike.difference(got.result, want.result, "exception" if want.raised else "result")
        or alike.difference(got.args, want.args, "arguments afterwards")
        or alike.difference(_state(got.target), _state(want.target), "function or module afterwards")
        or alike.difference(got.printed, want.printed, "printed output")
        or alike.difference(got.random_states, want.random_states, "random state afterwards")
        or alike.difference(_sharing(got), _sharing(want), "objects and storages shared")
    )
    if difference is not None:
        cause = got.result if got.raised else None
        raise AssertionError(prefix + difference) from cause


def _state(target: Any) -> Any:
    return dict(vars(target)) if isinstance(target, torch.nn.Module) else getattr(target, "__self__", None)


def _sharing(outcome: Outcome) -> dict[str, str]:
    result = None if outcome.raised else outcome.result
    return identity_pattern((outcome.args, result, _state(outcome.target)), "values")


def assert_captures(
    fn: Any,
    *args: Any,
    graphs: int | None = 1,
    ops: int | None = None,
    breaks: Sequence[str] | None = (),
    backend: str | GraphCompiler | None = None,
    times: int = 2,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backward: bool = True,
    rtol: float = 0.0,
    atol: float = 0.0,
    **kwargs: Any,
) -> CompileCounter:
    """Require that compiled code does what eager does, and captures as much as expected.

    Eager and compiled each run `times` times on clones of the arguments (and of `fn`, if it is a module, a method or an
    object). Compared are result (types, dtypes, shapes, strides, values, `requires_grad`), exceptions, arguments
    afterwards, printed output, random state, which objects and storages are shared, and gradients.

    Args:
        fn: What to compile.
        *args: Its arguments; tensors among them must be leaves.
        graphs: How many graphs are captured in all calls together; None to leave it open.
        ops: How many calls are in them; None to leave it open.
        breaks: Ids of the graph breaks met, in order; None to leave them open.
        backend: The backend that gets the graphs; by default they run as they are.
        times: How many calls. All but the first must come out of the cache, or `graphs` will not be met.
        fullgraph: As for `graphwright.compile`.
        dynamic: As for `graphwright.compile`.
        backward: Also compare gradients, where the result requires them.
        rtol: Relative tolerance for floating point values; 0 means bit for bit.
        atol: Absolute tolerance.
        **kwargs: Keyword arguments of `fn`.

    Returns:
        The counter, with the graphs.

    Raises:
        AssertionError: Something differs.
    """
    counter = CompileCounter(backend)
    eager, twin = copy.deepcopy(fn), copy.deepcopy(fn)
    compiled = make_compiler(CompileSpec(counter, fullgraph, dynamic)).compile(twin)
    with events.collected(events.GraphBroke, events.InternalErrorCaught) as found:
        for number in range(times):
            want = _run(eager, eager, args, kwargs, number, backward)
            got = _run(twin, compiled, args, kwargs, number, backward)
            assert_same_outcome(got, want, rtol=rtol, atol=atol, label=f"call {number + 1}")
    _check_counts(counter, found, graphs, ops, breaks)
    return counter


def _run(target: Any, call: Any, args: Sequence[Any], kwargs: dict[str, Any], number: int, backward: bool) -> Outcome:
    own_args, own_kwargs = copy.deepcopy((tuple(args), kwargs))
    outcome = run_once(target, call, own_args, own_kwargs, seed=number)
    if backward and not outcome.raised:
        _run_backward(outcome.result)
    return outcome


def _run_backward(result: Any) -> None:
    """Accumulate gradients of everything that a result depends on."""
    found: list[torch.Tensor] = []
    _collect_tensors(result, found, set())
    losses = [t.abs().sum() for t in found if t.requires_grad and t.grad_fn is not None and t.layout is torch.strided]
    if losses:
        torch.autograd.backward(losses)


def _collect_tensors(value: Any, found: list[torch.Tensor], met: set[int]) -> None:
    if id(value) in met:
        return
    met.add(id(value))
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect_tensors(item, found, met)
    elif isinstance(value, dict):
        for item in dict.values(value):
            _collect_tensors(item, found, met)


def _check_counts(
    counter: CompileCounter,
    found: Sequence[events.Event],
    graphs: int | None,
    ops: int | None,
    breaks: Sequence[str] | None,
) -> None:
    errors = [event.error for event in found if isinstance(event, events.InternalErrorCaught)]
    if errors:
        raise AssertionError(f"internal error while capturing: {errors[0]!r}") from errors[0]
    broke = [event for event in found if isinstance(event, events.GraphBroke)]
    story = "".join(f"\n  {event.gw_id} {event.location}: {event.reason}" for event in broke)
    if breaks is not None and [event.gw_id for event in broke] != list(breaks):
        raise AssertionError(f"graph breaks {[event.gw_id for event in broke]} instead of {list(breaks)}{story}")
    if graphs is not None and counter.frame_count != graphs:
        raise AssertionError(f"{counter.frame_count} graphs instead of {graphs}{story}")
    if ops is not None and counter.op_count != ops:
        listing = "\n".join(str(graph.graph) for graph in counter.graphs)
        raise AssertionError(f"{counter.op_count} ops instead of {ops}:\n{listing}")
