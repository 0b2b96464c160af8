"""Weights: other values, other tensors, other modules of a class; for each of the three policies."""

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Final

import torch
from torch.nn import functional

from graphwright_plugins.form.graph_form import form_of
from graphwright_plugins.form.weights import OfferedValues, WeightsChange, listen_to_weights, offering
from graphwright_plugins.protocol import CompiledGraph, HasRefit
from graphwright_plugins.resolve import ResolvedBackend

from .base import ConformanceTests, call
from .comparison import assert_same_values
from .program import Program, compile_program
from .themes import Theme

MODULES: Final = 4
"""How many modules of one class take turns."""


def _layer(x: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
    return functional.linear(x, weight, bias).relu(), x @ weight.t()


def _inputs() -> Sequence[torch.Tensor]:
    return torch.randn(5, 3), *_weights()


def _weights() -> tuple[torch.nn.Parameter, torch.nn.Parameter]:
    return torch.nn.Parameter(torch.randn(4, 3)), torch.nn.Parameter(torch.randn(4))


_told: Final[ContextVar[list[WeightsChange] | None]] = ContextVar("graphwright_kit_weights", default=None)


def _note(change: WeightsChange) -> None:
    told = _told.get()
    if told is not None:
        told.append(change)


@contextlib.contextmanager
def _changes_told() -> Iterator[list[WeightsChange]]:
    """The changes of frozen weights that are told meanwhile."""
    listen_to_weights(_note)
    told: list[WeightsChange] = []
    token = _told.set(told)
    try:
        yield told
    finally:
        _told.reset(token)


def _because(change: WeightsChange) -> str:
    return f" ({change.reason})" if change.reason else ""


LAYER = Program("layer", _layer, _inputs)


class WeightTests(ConformanceTests):
    """Results are those of the weights of this call, whatever the weights were when the graph was compiled."""

    theme = Theme.WEIGHTS

    def test_changed_in_place(self, resolved: ResolvedBackend) -> None:
        """An optimizer's step between two calls."""
        with torch.no_grad():
            inputs, compiled = self._compiled(resolved)
            for step in range(3):
                self._check(resolved, compiled, inputs)
                inputs[1].mul_(0.5).add_(step)
                self._check(resolved, compiled, inputs)
                inputs[2].sub_(1)
            self._check(resolved, compiled, inputs)

    def test_replaced(self, resolved: ResolvedBackend) -> None:
        """Other tensors in place of the weights, one of them or all, and the old ones gone."""
        with torch.no_grad():
            inputs, compiled = self._compiled(resolved)
            self._check(resolved, compiled, inputs)
            inputs[1] = self._other_weights(1)[0]
            self._check(resolved, compiled, inputs)
            inputs[1:] = self._other_weights(2)
            self._check(resolved, compiled, inputs)

    def test_two_modules(self, resolved: ResolvedBackend) -> None:
        """Modules of one class, each with its weights, take turns on one compiled graph."""
        with torch.no_grad():
            inputs, compiled = self._compiled(resolved)
            modules = [inputs[1:], *(self._other_weights(seed) for seed in range(1, MODULES))]
            for _ in range(2):
                for weights in modules:
                    self._check(resolved, compiled, [inputs[0], *weights])
            modules[0][0].add_(1)
            for weights in modules:
                self._check(resolved, compiled, [inputs[0], *weights])

    def test_trained(self, resolved: ResolvedBackend) -> None:
        """Steps of training change results and gradients of the next step as in eager."""
        self.require(resolved, "training")
        inputs = LAYER.inputs(self.device)
        compiled = compile_program(resolved, LAYER, inputs)
        for _ in range(3):
            losses = [outputs[0].square().sum() for outputs in (compiled(*inputs), _layer(*inputs))]
            ours, theirs = (torch.autograd.grad(loss, inputs[1:]) for loss in losses)
            for actual, expected in zip(ours, theirs, strict=True):
                torch.testing.assert_close(actual, expected)
            with torch.no_grad():
                for weight, gradient in zip(inputs[1:], theirs, strict=True):
                    weight.sub_(gradient, alpha=0.01)

    def test_change_is_told(self, resolved: ResolvedBackend) -> None:
        """A backend that has weights as constants: the framework notices their change and says what it does."""
        policy = form_of(resolved.backend, resolved.options).weights
        if policy == "inputs":
            self.not_declared(f"backend {resolved.name!r} takes weights as inputs under these options")
        wanted = "refitted" if policy == "refit" and isinstance(resolved.backend, HasRefit) else "compiled anew"
        with torch.no_grad(), _changes_told() as told:
            inputs, compiled = self._compiled(resolved)
            self._check(resolved, compiled, inputs)
            assert not told, "a change was told where there was none"
            inputs[1].add_(1)
            self._check(resolved, compiled, inputs)
        found = [f"{change.how}: {change.action}{_because(change)}" for change in told]
        assert [(change.how, change.action) for change in told] == [("written to", wanted)], (
            f"after a weight was written to, with weights={policy!r}, what was told is {found or 'nothing'} instead of "
            f"['written to: {wanted}']"
        )

    def _compiled(self, resolved: ResolvedBackend) -> tuple[list[Any], CompiledGraph]:
        """The layer compiled as the framework does it: the weights of the first call are offered as constants."""
        inputs = LAYER.inputs(self.device)
        with offering(OfferedValues(inputs)):
            return inputs, compile_program(resolved, LAYER, inputs)

    def _other_weights(self, seed: int) -> list[Any]:
        return LAYER.inputs(self.device, seed)[1:]

    def _check(self, resolved: ResolvedBackend, compiled: CompiledGraph, inputs: Sequence[Any]) -> None:
        expected = _layer(*inputs)
        assert_same_values(expected, call(compiled, inputs), resolved.capabilities, "with the call's weights, output")
