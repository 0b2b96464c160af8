"""Results without gradients: typical operations and layouts."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import fx
from torch.nn import functional

from graphwright_plugins.resolve import ResolvedBackend

from .base import ConformanceTests, call, program_ids
from .program import Program, compile_graph
from .themes import Theme


def _two(*shape: int) -> Any:
    return lambda: (torch.randn(shape), torch.randn(shape))


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[Any, ...]:
    weights = (query @ key.transpose(-2, -1) / 4.0).softmax(-1)
    return (weights @ value,)


def _mlp(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> tuple[Any, ...]:
    hidden = functional.gelu(functional.linear(x, weight, bias))
    return (functional.layer_norm(hidden, (hidden.shape[-1],)),)


PROGRAMS = [
    Program("arithmetic", lambda x, y: (x + y * 2 - x / 3,), _two(2, 3)),
    Program("matmul", lambda x, y: (x @ y.t(),), _two(3, 4)),
    Program("reduce", lambda x, y: (x.sum(0), y.mean(), x.amax(1, keepdim=True)), _two(3, 4)),
    Program("compare", lambda x, y: (x > y, torch.where(x > y, x, y)), _two(3, 4)),
    Program("index", lambda x, y: (x[1:, ::2], y[:, 0], x[:, None]), _two(3, 4)),
    Program("attention", _attention, lambda: [torch.randn(2, 4, 5, 8) for _ in range(3)]),
    Program("mlp", _mlp, lambda: (torch.randn(5, 4), torch.randn(6, 4), torch.randn(6))),
    Program("convolution", lambda x, w: (functional.conv2d(x, w, padding=1),), lambda: _images()),
    Program("cast", lambda x, y: (x.to(torch.float64) + y, x.int(), y.half()), _two(2, 3)),
    Program("dtype promotion", lambda x, n: (x + n, n / 2, x * True), lambda: (torch.randn(3), torch.arange(3))),
    Program("several outputs", lambda x, y: (x + 1, y + 1, x * y, x - y), _two(2, 2)),
    Program("same intermediate twice", lambda x, y: _twice(x + y), _two(2, 2)),
    Program("view of intermediate", lambda x, y: ((x + y).t(), (x * y)[0]), _two(2, 3)),
    Program("view and its base", lambda x, y: _view_and_base(x + y), _two(2, 3)),
    Program("unused input", lambda x, y: (x + 1,), _two(2, 3)),
    Program("nan and infinity", lambda x, y: (x / 0, (x - x) / 0, y), _two(2, 3)),
]

LAYOUTS = [
    Program("transposed", lambda x, y: (x + 1, x + y), lambda: (torch.randn(3, 4).t(), torch.randn(4, 3))),
    Program("step", lambda x, y: (x * 2, x + y), lambda: (torch.randn(8)[::2], torch.randn(4))),
    Program("offset", lambda x, y: (x * 2, x + y), lambda: (torch.randn(8)[3:7], torch.randn(4))),
    Program("expanded", lambda x, y: (x * 2, x + y), lambda: (torch.randn(3, 1).expand(3, 4), torch.randn(3, 4))),
    Program("broadcast", lambda x, y: (x + y, x * y), lambda: (torch.randn(3, 1, 4), torch.randn(2, 1))),
    Program("channels last", lambda x, w: (x + 1, functional.conv2d(x, w)), lambda: _images(torch.channels_last)),
    Program("mixed scalar tensor", lambda x, y: (x + y, y * 2), lambda: (torch.randn(3), torch.tensor(2.0))),
]


def _images(memory_format: torch.memory_format = torch.contiguous_format) -> Sequence[torch.Tensor]:
    image = torch.randn(2, 3, 5, 5).to(memory_format=memory_format)
    return image, torch.randn(4, 3, 3, 3)


def _twice(value: Any) -> tuple[Any, ...]:
    return value, value


def _view_and_base(value: Any) -> tuple[Any, ...]:
    return value, value[0]


class ForwardTests(ConformanceTests):
    """Results equal eager's when no gradients are asked for."""

    theme = Theme.NUMERICS

    @program_ids(PROGRAMS)
    def test_program(self, resolved: ResolvedBackend, program: Program) -> None:
        """Values, dtypes, shapes, strides and aliases of typical operations."""
        self.check(resolved, program)

    @program_ids(LAYOUTS)
    def test_input_layout(self, resolved: ResolvedBackend, program: Program) -> None:
        """Inputs that aren't contiguous."""
        self.check(resolved, program)

    def test_two_graphs(self, resolved: ResolvedBackend) -> None:
        """Graphs compiled one after the other don't disturb each other."""
        first = compile_graph(resolved, fx.symbolic_trace(lambda x: (x + 1,)), [torch.zeros(3, device=self.device)])
        second = compile_graph(resolved, fx.symbolic_trace(lambda x: (x * 2,)), [torch.zeros(3, device=self.device)])
        x = torch.randn(3, device=self.device)
        for compiled, expected in ((first, x + 1), (second, x * 2), (first, x + 1)):
            torch.testing.assert_close(call(compiled, [x])[0], expected)

    @pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
    def test_grad_mode(self, resolved: ResolvedBackend, mode: Any) -> None:
        """Compiled and called without gradients on inputs that would have them."""
        program = Program("grad mode", lambda x, y: (x * y, x[0]), lambda: [leaf(2, 3), leaf(2, 3)])
        with mode():
            self.check(resolved, program)


def leaf(*shape: int) -> torch.Tensor:
    """A leaf of autograd."""
    return torch.randn(shape, requires_grad=True)
