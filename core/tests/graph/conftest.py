"""A translator of nothing: variables, a graph and guards, without bytecode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pytest
import torch
from torch import fx

import graphwright.builtin_calls.handlers  # noqa: F401  registers them
from graphwright.effects import Effects
from graphwright.exc import GraphBreak, ObservedException
from graphwright.graph.ambient_state import AmbientState
from graphwright.graph.finished_graph import FinishedGraph
from graphwright.graph.output_graph import OutputGraph
from graphwright.graph_breaks import GraphBreakKind
from graphwright.guards.guard_set import GuardSet
from graphwright.settings import Settings
from graphwright.sources import Source, SourceRoots
from graphwright.variables.base import Args, Kwargs, VariableTracker
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.tensor import TensorVariable
from graphwright.wrap.wrapper import Wrapper


@dataclass
class FakeCapture:
    settings: Settings = field(default_factory=Settings)
    roots: SourceRoots = field(default_factory=SourceRoots)
    effects: Effects = field(default_factory=Effects)
    is_whole: bool = False

    def __post_init__(self) -> None:
        self.guards = GuardSet(self.roots)
        self.output = OutputGraph(location=lambda: 'File "user.py", line 1, in fn')


class Raised(ConstantVariable):
    """An exception of the traced program."""

    def python_type(self) -> type:
        return type(self.value)


class FakeTx:
    def __init__(self) -> None:
        self.capture = FakeCapture()
        self.wrapper = Wrapper()
        self.inlined: list[Any] = []

    def wrap(self, value: Any, source: Source | None = None) -> VariableTracker:
        return self.wrapper.wrap(self, value, source)

    def lazy(self, value: Any, source: Source) -> VariableTracker:
        return self.wrapper.lazy(self, value, source)

    def call(self, fn: VariableTracker, args: Args, kwargs: Kwargs | None = None) -> VariableTracker:
        return fn.realize().call(self, args, kwargs or {})

    def inline(self, fn: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        self.inlined.append(fn)
        return self.wrap(None)

    def graph_break(self, kind: GraphBreakKind, detail: str) -> NoReturn:
        raise GraphBreak(kind, detail)

    def is_in_try(self) -> bool:
        return False

    def is_in_finally(self) -> bool:
        return False

    def may_be_swallowed(self) -> bool:
        return False

    def is_in_cleanup(self) -> bool:
        return False

    def raise_(self, kind: type[BaseException], *args: Any) -> NoReturn:
        raise ObservedException(Raised(kind(*args)))

    # ------------------------------------------------------------ for tests

    def input(self, tensor: torch.Tensor, name: str = "x") -> TensorVariable:
        position = len(self.capture.output.inputs)
        variable = self.wrap(tensor, self.capture.roots.local(position, name))
        assert isinstance(variable, TensorVariable)
        return variable

    def fn(self, fn: Any, *args: Any, **kwargs: Any) -> VariableTracker:
        """Call a function on variables and plain values."""
        values = [a if isinstance(a, VariableTracker) else self.wrap(a) for a in args]
        named = {k: v if isinstance(v, VariableTracker) else self.wrap(v) for k, v in kwargs.items()}
        return self.call(self.wrap(fn), values, named).realize()

    def method(self, owner: VariableTracker, name: str, *args: Any, **kwargs: Any) -> VariableTracker:
        values = [a if isinstance(a, VariableTracker) else self.wrap(a) for a in args]
        named = {k: v if isinstance(v, VariableTracker) else self.wrap(v) for k, v in kwargs.items()}
        return owner.call_method(self, name, values, named).realize()

    def finish(self, *outputs: VariableTracker) -> FinishedGraph:
        finished = self.capture.output.finish([v.as_proxy() for v in outputs])
        self.capture.output.graph.lint()
        return finished

    def nodes(self) -> list[fx.Node]:
        return [n for n in self.capture.output.graph.nodes if n.op in ("call_function", "call_method")]


@pytest.fixture
def tx() -> FakeTx:
    before = AmbientState.current()
    yield FakeTx()
    before.install()


@pytest.fixture
def run() -> Callable[..., Sequence[Any]]:
    """Runs a finished graph on tensors in the order of the inputs that were declared."""

    def run_graph(finished: FinishedGraph, *tensors: torch.Tensor) -> Sequence[Any]:
        assert finished.module is not None
        chosen = [tensors[entry.source.key] for entry in finished.inputs]
        return finished.module(*chosen)

    return run_graph
