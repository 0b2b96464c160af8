"""A backend together with what else is going on: modes, other backends, and programs that Graphwright captures."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch.nn import functional

from graphwright_plugins.resolve import ResolvedBackend, resolve_backend
from graphwright_plugins.supports import HasPartitioner, HasSupports

from .base import ConformanceTests, call
from .comparison import assert_same_value, assert_same_values
from .forward import leaf
from .program import Program, compile_program
from .stand_ins import StandIn
from .themes import Theme

LINEAR = Program(
    "linear",
    lambda x, w: (functional.linear(x, w).relu(), (x @ w.t()).sum()),
    lambda: (torch.randn(4, 8), torch.randn(6, 8)),
)


class Perceptron(torch.nn.Module):
    """Two layers with a buffer that counts calls."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.second = torch.nn.Linear(8, 2)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        """Results in a container."""
        self.calls += 1
        hidden = self.first(x).relu()
        return {"result": self.second(hidden), "hidden": [hidden, (x.shape, None)]}


class CompositionTests(ConformanceTests):
    """Results are eager's under the modes of torch, beside other backends, and in whole programs."""

    theme = Theme.COMPOSITION

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
    def test_autocast(self, resolved: ResolvedBackend, dtype: torch.dtype) -> None:
        """Compiled and called under autocast; a graph compiled without it stays as it was."""
        self.require_dtype(resolved, dtype)
        self.require_dtype(resolved, torch.float32)
        plain = compile_program(resolved, LINEAR, LINEAR.inputs(self.device))
        with torch.autocast(torch.device(self.device).type, dtype):
            self.check(resolved, LINEAR)
        self.check_call(resolved, plain, LINEAR, LINEAR.inputs(self.device), seed=0)

    @pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
    def test_grad_modes(self, resolved: ResolvedBackend, mode: Any) -> None:
        """One program compiled with gradients and without, each called where it was compiled."""
        program = Program("modes", lambda x, w: ((x @ w).tanh(),), lambda: [leaf(2, 3), leaf(3, 2)])
        with mode():
            without = compile_program(resolved, program, program.inputs(self.device))
            self.check_call(resolved, without, program, program.inputs(self.device), seed=0)
        if resolved.capabilities.training:
            compiled = compile_program(resolved, program, program.inputs(self.device))
            self.check_call(resolved, compiled, program, program.inputs(self.device), seed=0)
        with mode():
            self.check_call(resolved, without, program, program.inputs(self.device), seed=0)

    def test_deterministic(self, resolved: ResolvedBackend) -> None:
        """Compiled and called where only deterministic algorithms are allowed."""
        torch.use_deterministic_algorithms(True)
        try:
            self.check(resolved, LINEAR)
        finally:
            torch.use_deterministic_algorithms(False)

    def test_another_backend(self, resolved: ResolvedBackend) -> None:
        """Graphs of this backend and of another in turn, one's results the other's inputs."""
        other = resolve_backend(_as_it_is)
        ours = compile_program(resolved, LINEAR, LINEAR.inputs(self.device))
        theirs = compile_program(other, LINEAR, LINEAR.inputs(self.device))
        x, weight = LINEAR.inputs(self.device)
        square = torch.randn(8, 6, device=self.device)
        for first, second in ((ours, theirs), (theirs, ours)):
            hidden = call(first, [x, weight])[0] @ square.t()
            expected = LINEAR.function(LINEAR.function(x, weight)[0] @ square.t(), weight)
            assert_same_values(expected, call(second, [hidden, weight]), resolved.capabilities, "output")


def _as_it_is(gm: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    forward: Callable[..., Any] = gm.forward
    return forward


class CaptureTests(ConformanceTests):
    """Whole programs that Graphwright captures; skipped where only the plugin contract is installed."""

    theme = Theme.COMPOSITION

    @pytest.fixture
    def graphwright(self) -> Iterator[Any]:
        """The package, reset before and after."""
        package = pytest.importorskip("graphwright", reason="Graphwright itself isn't installed")
        package.reset()
        yield package
        package.reset()

    @pytest.fixture
    def compile(self, graphwright: Any, backend: Any) -> Callable[..., Any]:
        """`graphwright.compile` with the backend."""
        return functools.partial(graphwright.compile, backend=backend, options=self.options)

    def test_graph_break(self, compile: Any, graphwright: Any, resolved: ResolvedBackend) -> None:
        """A function in several graphs, with values of the first used in the last."""

        def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = x * 2
            graphwright.graph_break()
            z = y.relu() + x
            if float(z.sum()) > 0:
                return z - y, y
            return z + y, y

        self._check(resolved, compile(function), function, torch.ones(3), -torch.ones(3))

    def test_nested(self, compile: Any, resolved: ResolvedBackend) -> None:
        """Compiled functions that call each other."""

        def inner(x: torch.Tensor) -> torch.Tensor:
            return x.relu() * 3

        compiled_inner = compile(inner)

        def outer(x: torch.Tensor, function: Callable[..., torch.Tensor] = inner) -> torch.Tensor:
            return function(x + 1) - function(x)

        compiled_outer = compile(functools.partial(outer, function=compiled_inner))
        self._check(resolved, compiled_outer, outer, torch.randn(3), torch.randn(3))

    def test_module(self, compile: Any, resolved: ResolvedBackend) -> None:
        """A module with a buffer that changes, and containers for results; two modules of its class."""
        for seed in range(2):
            torch.manual_seed(seed)
            ours, theirs = (Perceptron().to(self.device).eval() for _ in range(2))
            theirs.load_state_dict(ours.state_dict())
            compiled = compile(ours)
            with torch.no_grad():
                self._check(resolved, compiled, theirs, torch.randn(3, 4), torch.randn(3, 4))
            assert int(ours.calls) == 2, f"a buffer that counts calls is {int(ours.calls)} after two"

    def test_training_step(self, compile: Any, resolved: ResolvedBackend) -> None:
        """Steps of an optimizer, as in eager."""
        self.require(resolved, "training")
        torch.manual_seed(0)
        ours, theirs = (Perceptron().to(self.device) for _ in range(2))
        theirs.load_state_dict(ours.state_dict())
        compiled = compile(ours)
        for module, function in ((ours, compiled), (theirs, theirs)):
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            for seed in range(3):
                torch.manual_seed(seed)
                optimizer.zero_grad()
                function(torch.randn(5, 4, device=self.device))["result"].square().mean().backward()
                optimizer.step()
        for (name, actual), expected in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
            assert_same_value(expected, actual, resolved.capabilities, name)

    def test_modes(self, compile: Any, resolved: ResolvedBackend) -> None:
        """One compiled function under no_grad, inference mode, autocast, and none of them."""
        self.require_dtype(resolved, torch.bfloat16)

        def function(x: torch.Tensor) -> torch.Tensor:
            return x @ x.t() + 1

        compiled = compile(function)
        for mode in (torch.no_grad, torch.inference_mode, _bfloat16(self.device), torch.no_grad):
            with mode():
                self._check(resolved, compiled, function, torch.randn(3, 3))
        self._check(resolved, compiled, function, torch.randn(3, 3))

    def test_sizes(self, compile: Any, resolved: ResolvedBackend) -> None:
        """Sizes that change from call to call, 0 and 1 among them."""

        def function(x: torch.Tensor) -> tuple[torch.Tensor, int]:
            return (x * x.shape[0]).sum(1), x.shape[0]

        compiled = compile(function, dynamic=True)
        self._check(resolved, compiled, function, *(torch.randn(rows, 2) for rows in (4, 7, 1, 0, 2, 9)))

    def test_not_compiled_again(self, graphwright: Any, resolved: ResolvedBackend) -> None:
        """Nothing is compiled again where nothing has changed."""
        counting = StandIn(resolved)

        def function(x: torch.Tensor) -> torch.Tensor:
            return x.relu() * 2

        compiled = graphwright.compile(function, backend=counting)
        self._check(resolved, compiled, function, torch.randn(3))
        before = counting.compiled
        whole = not isinstance(resolved.backend, (HasSupports, HasPartitioner))
        assert before == 1 or not whole, f"{before} graphs were compiled where one is enough"
        self._check(resolved, compiled, function, *(torch.randn(3) for _ in range(3)))
        assert counting.compiled == before, f"{counting.compiled - before} graphs were compiled by three more calls"

    def test_two_backends(self, compile: Any, graphwright: Any, resolved: ResolvedBackend) -> None:
        """One function compiled by this backend and by another, in turn."""

        def function(x: torch.Tensor) -> torch.Tensor:
            return x.softmax(-1) * 2

        ours, theirs = compile(function), graphwright.compile(function, backend=_as_it_is)
        for compiled in (ours, theirs, ours):
            self._check(resolved, compiled, function, torch.randn(3, 4), torch.randn(3, 4))

    def _check(
        self,
        resolved: ResolvedBackend,
        compiled: Callable[..., Any],
        function: Callable[..., Any],
        *inputs: torch.Tensor,
    ) -> None:
        """Compare a call for each input with eager's."""
        for x in inputs:
            own = x.to(self.device)
            expected, actual = _flat(function(own.clone())), _flat(compiled(own.clone()))
            assert_same_values(expected, actual, resolved.capabilities, "result")


def _bfloat16(device: str) -> Callable[[], Any]:
    return lambda: torch.autocast(torch.device(device).type, torch.bfloat16)


def _flat(value: Any) -> list[Any]:
    """The leaves of nested containers, with the containers' types."""
    if isinstance(value, dict):
        return [type(value).__name__, *(leaf for key, item in value.items() for leaf in (key, *_flat(item)))]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(leaf for item in value for leaf in _flat(item))]
    return [value]
