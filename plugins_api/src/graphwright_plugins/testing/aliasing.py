"""Inputs that share memory, and outputs that are inputs or views of them."""

from collections.abc import Sequence
from typing import Any

import torch

from graphwright_plugins.resolve import ResolvedBackend

from .base import ConformanceTests, program_ids
from .program import Program
from .themes import Theme


def _one() -> Sequence[torch.Tensor]:
    return (torch.randn(3, 3),)


def _same_twice() -> Sequence[torch.Tensor]:
    x = torch.randn(3, 3)
    return x, x


def _overlapping_views() -> Sequence[torch.Tensor]:
    base = torch.randn(6)
    return base[:4], base[2:]


def _base_and_view() -> Sequence[torch.Tensor]:
    base = torch.randn(3, 3)
    return base, base[0]


def _change_first(x: Any, y: Any) -> tuple[Any, ...]:
    x.add_(1)
    return (x * 2, y * 2)


def _change_second(x: Any, y: Any) -> tuple[Any, ...]:
    y.mul_(3)
    return (x + 1, y + 1)


def _views_of_one(x: Any) -> tuple[Any, ...]:
    return x[0], x[1:], x.t()


OUTPUTS = [
    Program("input returned", lambda x: (x, x + 1), _one),
    Program("input returned twice", lambda x: (x, x), _one),
    Program("view of an input", lambda x: (x[0], x + 1), _one),
    Program("several views of an input", _views_of_one, _one),
    Program("reshaped input", lambda x: (x.view(-1), x.reshape(9), x.flatten()), _one),
    Program("detached input", lambda x: (x.detach(), x.detach() + 1), _one),
    Program("contiguous input", lambda x: (x.contiguous(), x.to(x.dtype)), _one),
    Program("only an input", lambda x: (x,), _one),
]

INPUTS = [
    Program("one tensor twice", lambda x, y: (x + y, x, y), _same_twice),
    Program("overlapping views", lambda x, y: (x + y, x * y), _overlapping_views),
    Program("base and view", lambda x, y: (x + y, y), _base_and_view),
]

CHANGED = [
    Program(f"{kind}, {which} changed", function, make_inputs)
    for kind, make_inputs in (
        ("one tensor twice", _same_twice),
        ("overlapping views", _overlapping_views),
        ("base and view", _base_and_view),
    )
    for which, function in (("first", _change_first), ("second", _change_second))
]


class AliasingTests(ConformanceTests):
    """What is one object or one piece of memory in eager is so in the compiled graph, and nothing else is."""

    theme = Theme.CALLING_CONVENTION

    @program_ids(OUTPUTS)
    def test_output(self, resolved: ResolvedBackend, program: Program) -> None:
        """Outputs that are inputs, or views of them."""
        self.require(resolved, "aliasing")
        self.check(resolved, program)

    @program_ids(INPUTS)
    def test_input(self, resolved: ResolvedBackend, program: Program) -> None:
        """Inputs that share memory and are only read."""
        self.require(resolved, "aliasing")
        self.check(resolved, program)

    @program_ids(CHANGED)
    def test_changed_input(self, resolved: ResolvedBackend, program: Program) -> None:
        """A change through one input shows in the other."""
        self.require(resolved, "aliasing", "mutation")
        self.check(resolved, program)
