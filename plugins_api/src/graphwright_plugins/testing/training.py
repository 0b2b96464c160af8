"""Gradients."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch.nn import functional

from graphwright_plugins.protocol import CompiledGraph
from graphwright_plugins.resolve import ResolvedBackend

from .base import ConformanceTests, call, program_ids
from .comparison import assert_same_values
from .program import Program, compile_program
from .themes import Theme


def _leaf(*shape: int) -> torch.Tensor:
    return torch.randn(shape, requires_grad=True)


def _linear_inputs() -> Sequence[torch.Tensor]:
    return torch.randn(5, 3), _leaf(4, 3), _leaf(4)


def _linear(x: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
    return (functional.relu(functional.linear(x, weight, bias)),)


def _partly_frozen(x: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
    return (functional.linear(x, weight, bias), (x * 2).sum())


def _loss(x: Any, weight: Any, target: Any) -> tuple[Any, ...]:
    return (functional.cross_entropy(x @ weight, target), (x @ weight).argmax(-1))


def _change_intermediate(x: Any, weight: Any) -> tuple[Any, ...]:
    hidden = x @ weight
    hidden.add_(1)
    return (hidden.tanh(), hidden)


def _change_plain_input(x: Any, buffer: Any) -> tuple[Any, ...]:
    buffer.add_(x.detach())
    return (x * buffer.clone(),)


def _custom_shapes(x: Any, y: Any) -> tuple[Any, ...]:
    return (torch.cat([x, y], 1).sum(1), torch.stack([x[:, 0], y[:, 0]]))


PROGRAMS = [
    Program("linear", _linear, _linear_inputs),
    Program("gradient for the data too", _linear, lambda: (_leaf(5, 3), _leaf(4, 3), _leaf(4))),
    Program("partly frozen", _partly_frozen, lambda: (torch.randn(5, 3), _leaf(4, 3), torch.randn(4))),
    Program("loss", _loss, lambda: (torch.randn(5, 3), _leaf(3, 4), torch.randint(0, 4, (5,)))),
    Program("changed intermediate", _change_intermediate, lambda: (torch.randn(2, 3), _leaf(3, 2))),
    Program("changed buffer", _change_plain_input, lambda: (_leaf(3), torch.zeros(3))),
    Program("one input used twice", lambda x: (x * x + x,), lambda: (_leaf(3),)),
    Program("joined and split", _custom_shapes, lambda: (_leaf(3, 2), _leaf(3, 4))),
    Program("view of an input", lambda x: (x[0], x.t() * 2), lambda: (_leaf(2, 3),)),
    Program("input returned", lambda x: (x, x * 2), lambda: (_leaf(3),)),
    Program("expanded", lambda x, y: (x.expand(4, 3) * y,), lambda: (_leaf(1, 3), _leaf(4, 3))),
    Program("double precision", lambda x: (x.double().exp().float(),), lambda: (_leaf(3),)),
    Program("detached on the way", lambda x, y: ((x * y).detach() * x,), lambda: (_leaf(3), _leaf(3))),
]


def backward(outputs: Sequence[Any], start: int = 0, *, again: bool = False) -> None:
    """Run a backward pass from the outputs that have gradients, each element with a weight of its own.

    Args:
        outputs: What a graph returned.
        start: The first output that takes part.
        again: Whether another pass is to follow.
    """
    differentiable = [out for out in outputs[start:] if isinstance(out, torch.Tensor) and out.requires_grad]
    weights = [torch.linspace(0.5, 1.5, out.numel(), dtype=out.dtype).reshape(out.shape) for out in differentiable]
    pairs = zip(weights, differentiable, strict=True)
    torch.autograd.backward(differentiable, [weight.to(out.device) for weight, out in pairs], retain_graph=again)


def gradients(inputs: Sequence[Any]) -> list[torch.Tensor | None]:
    """The gradients accumulated in the inputs."""
    return [value.grad if isinstance(value, torch.Tensor) and value.is_leaf else None for value in inputs]


class TrainingTests(ConformanceTests):
    """Gradients equal eager's."""

    theme = Theme.TRAINING

    @program_ids(PROGRAMS)
    def test_gradients(self, resolved: ResolvedBackend, program: Program) -> None:
        """Outputs, what they require, and the gradients of all inputs."""
        self.require(resolved, "training")
        compiled, inputs, eager = self._compiled(resolved, program)
        self._check_step(resolved, compiled, program, inputs, eager)

    def test_accumulation(self, resolved: ResolvedBackend) -> None:
        """Gradients of several steps add up."""
        self.require(resolved, "training")
        compiled, inputs, eager = self._compiled(resolved, PROGRAMS[0])
        for _ in range(3):
            self._check_step(resolved, compiled, PROGRAMS[0], inputs, eager)

    def test_cleared_gradients(self, resolved: ResolvedBackend) -> None:
        """Gradients may be set to None or to zero between steps."""
        self.require(resolved, "training")
        compiled, inputs, eager = self._compiled(resolved, PROGRAMS[0])
        for _ in range(2):
            self._check_step(resolved, compiled, PROGRAMS[0], inputs, eager)
            for tensor in (*inputs, *eager):
                tensor.grad = None

    def test_two_calls_before_backward(self, resolved: ResolvedBackend) -> None:
        """Each call keeps what its own backward needs."""
        self.require(resolved, "training")
        program = Program("product", lambda x, w: (x * w,), lambda: (torch.randn(3), _leaf(3)))
        compiled, inputs, eager = self._compiled(resolved, program)
        other = torch.arange(3.0, device=self.device)
        ours = [call(compiled, inputs), call(compiled, [other, inputs[1]])]
        theirs = [program.function(*eager), program.function(other, eager[1])]
        for outputs in (*ours, *theirs):
            backward(outputs)
        assert_same_values(gradients(eager), gradients(inputs), resolved.capabilities, "gradient")

    def test_one_output_used(self, resolved: ResolvedBackend) -> None:
        """An output that the loss doesn't use gives no gradient."""
        self.require(resolved, "training")
        program = Program("two", lambda x, y: (x * 2, y * 3), lambda: (_leaf(3), _leaf(3)))
        compiled, inputs, eager = self._compiled(resolved, program)
        backward(call(compiled, inputs), start=1)
        backward(program.function(*eager), start=1)
        ours, theirs = gradients(inputs), gradients(eager)
        assert_same_values(theirs[1:], ours[1:], resolved.capabilities, "gradient")
        # Eager leaves None where a joint backward may write zeros: both say that nothing came through.
        assert ours[0] is None or not ours[0].any(), f"input 0 got the gradient {ours[0]} from an output not used"

    def test_hook(self, resolved: ResolvedBackend) -> None:
        """Hooks on inputs and outputs see and may change gradients."""
        self.require(resolved, "training")
        compiled, inputs, eager = self._compiled(resolved, PROGRAMS[0])
        for values, function in ((inputs, compiled), (eager, PROGRAMS[0].function)):
            values[1].register_hook(lambda gradient: gradient * 2)
            outputs = function(*values)
            outputs[0].register_hook(lambda gradient: gradient + 1)
            backward(outputs)
        assert_same_values(gradients(eager), gradients(inputs), resolved.capabilities, "gradient")

    def test_gradient_flows_through(self, resolved: ResolvedBackend) -> None:
        """Inputs that are no leaves hand gradients on to what they came from."""
        self.require(resolved, "training")
        compiled, inputs, eager = self._compiled(resolved, PROGRAMS[6])
        for (leaf,), function in ((inputs, compiled), (eager, PROGRAMS[6].function)):
            backward(function(leaf.sin()))
        assert_same_values(gradients(eager), gradients(inputs), resolved.capabilities, "gradient")

    def test_second_backward_refused(self, resolved: ResolvedBackend) -> None:
        """A second backward through freed values raises RuntimeError, as in eager."""
        self.require(resolved, "training")
        compiled, inputs, _ = self._compiled(resolved, PROGRAMS[0])
        outputs = call(compiled, inputs)
        backward(outputs)
        with pytest.raises(RuntimeError):
            backward(outputs)

    def test_backward_again(self, resolved: ResolvedBackend) -> None:
        """With `retain_graph=True` a second backward gives the same, also where one without it ran before."""
        self.require(resolved, "training")
        program = Program("chain", lambda x, w: (torch.tanh(x @ w).sin(),), lambda: (_leaf(3, 3), _leaf(3, 3)))
        compiled, inputs, eager = self._compiled(resolved, program)
        for function, given in ((compiled, inputs), (program.function, eager)):
            backward(call(function, given))
            outputs = call(function, given)
            backward(outputs, again=True)
            backward(outputs)
        assert_same_values(gradients(eager), gradients(inputs), resolved.capabilities, "gradient")

    def _compiled(self, resolved: ResolvedBackend, program: Program) -> tuple[CompiledGraph, list[Any], list[Any]]:
        self.require_program(resolved, program)
        compiled = compile_program(resolved, program, program.inputs(self.device))
        return compiled, program.inputs(self.device), program.inputs(self.device)

    def _check_step(
        self,
        resolved: ResolvedBackend,
        compiled: CompiledGraph,
        program: Program,
        inputs: Sequence[Any],
        eager: Sequence[Any],
    ) -> None:
        actual, expected = call(compiled, inputs), program.function(*eager)
        assert_same_values(expected, actual, resolved.capabilities, "output")
        backward(actual)
        backward(expected)
        assert_same_values(gradients(eager), gradients(inputs), resolved.capabilities, "gradient")
