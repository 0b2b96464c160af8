"""`torch.autograd.Function`: what its methods read and do is as in eager, whether they are in a graph or not."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import graphwright
from graphwright import config, events

pytestmark = pytest.mark.e2e

ALPHA = 1.0
CALLS: list[str] = []
SCALES = {"x": 1.0}


@pytest.fixture(autouse=True)
def _strict():
    with config.patch(raise_internal_errors=True):
        yield
    graphwright.reset()


def scaled(x):
    return x * ALPHA


class ReadsGlobals(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return scaled(x) * k

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * -ALPHA * x.cos() * ctx.k, None


class Decorated(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, k):
        ctx.k = k
        return torch.sin(x) * ALPHA

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        return gradient * ctx.k * ALPHA, None


class Counts(ReadsGlobals):
    @staticmethod
    def forward(ctx, x, k):
        CALLS.append("forward")
        return ReadsGlobals.forward(ctx, x, k)

    @staticmethod
    def backward(ctx, gradient):
        CALLS.append("backward")
        return ReadsGlobals.backward(ctx, gradient)


class Prints(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        print("forward", type(x).__name__)
        return x * k

    @staticmethod
    def backward(ctx, gradient):
        print("backward", type(gradient).__name__)
        return gradient * 2, None


class ReadsItsClass(torch.autograd.Function):
    scale = 1.0

    @staticmethod
    def forward(ctx, x, k):
        return x * ReadsItsClass.scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ReadsItsClass.scale * 3, None


class ReadsADict(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        return x * SCALES["x"]

    @staticmethod
    def backward(ctx, gradient):
        return gradient * SCALES["x"], None


class WritesAGlobal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        global ALPHA
        ALPHA = ALPHA + 1
        return x * ALPHA

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


BOX = [1.0]


class HasADefault(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k, box=BOX):
        box[0] += 1
        return x * box[0] * ALPHA

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None


class LooksAround(torch.autograd.Function):
    scale = 1.0

    @staticmethod
    def forward(ctx, x, k):
        return x * ctx._forward_cls.scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * getattr(ctx, "_forward_cls").scale, None


class Overrides(ReadsGlobals):
    @classmethod
    def apply(cls, x, k):
        CALLS.append("apply")
        return super().apply(x, k) + 5


class Draws(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        return x * random.random()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * random.random(), None


class WritesToItsArgument(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None


def outcome(function, call, capsys) -> list[Any]:
    """Results, gradients and effects of calls between which what the methods read changes."""
    global ALPHA
    CALLS.clear()
    BOX[0] = 1.0
    random.seed(0)
    found: list[Any] = []
    for value in (1.0, 2.0, 3.0):
        ALPHA = ReadsItsClass.scale = LooksAround.scale = SCALES["x"] = value
        x = torch.ones(2, requires_grad=True)
        result = call(x)
        result.sum().backward()
        found.append((result.tolist(), x.grad.tolist(), ALPHA))
    return [found, list(CALLS), capsys.readouterr().out]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    ("function", "breaks"),
    [
        (ReadsGlobals, 0),
        (Decorated, 0),
        (Counts, 1),
        (Prints, 1),
        (ReadsItsClass, 1),
        (ReadsADict, 1),
        (WritesAGlobal, 1),
        (HasADefault, 1),
        (LooksAround, 1),
        (Overrides, 0),
        (Draws, 1),
        (WritesToItsArgument, 1),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_it_reads_and_does(function, breaks, backend, capsys):
    def program(x):
        return function.apply(x * 1, 3) + 1

    compiled = graphwright.compile(program, backend=backend)
    with events.collected(events.GraphBroke) as found:
        got = outcome(function, compiled, capsys)
    assert got == outcome(function, program, capsys)
    of_program = [e for e in found if "autograd function" in e.detail]
    assert bool(of_program) == bool(breaks)
    if breaks:
        assert function.__name__ in of_program[0].detail


def test_a_variable_of_an_enclosing_function():
    def make(factor):
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * factor

            @staticmethod
            def backward(ctx, gradient):
                return gradient * factor * 2

        return lambda x: Scale.apply(x) + 1

    for factor in (2.0, 3.0):
        program = make(factor)
        x = torch.ones(2, requires_grad=True)
        graphwright.compile(program, backend="aot_eager", fullgraph=True)(x).sum().backward()
        assert x.grad.tolist() == [2 * factor] * 2
