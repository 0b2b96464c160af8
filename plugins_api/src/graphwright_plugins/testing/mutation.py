"""Graphs that change their inputs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from graphwright_plugins.resolve import ResolvedBackend

from .base import ConformanceTests, program_ids
from .program import Program, compile_program
from .themes import Theme


def _add_in_place(x: Any, y: Any) -> tuple[Any, ...]:
    x.add_(y)
    return (x * 2,)


def _add_and_return(x: Any, y: Any) -> tuple[Any, ...]:
    x.add_(y)
    return (x, y + 1)


def _without_output(x: Any, y: Any) -> tuple[Any, ...]:
    x.copy_(y)
    return ()


def _change_view(x: Any, y: Any) -> tuple[Any, ...]:
    x[0].mul_(3)
    return (x + y,)


def _change_through_transpose(x: Any, y: Any) -> tuple[Any, ...]:
    x.t().add_(1)
    return (x + y,)


def _read_before_and_after(x: Any, y: Any) -> tuple[Any, ...]:
    before = x + 1
    x.zero_()
    return (before, x + y)


def _change_both(x: Any, y: Any) -> tuple[Any, ...]:
    x.add_(y)
    y.mul_(x)
    return (x - y,)


def _count(x: Any, counter: Any) -> tuple[Any, ...]:
    counter.add_(1)
    return (x * counter,)


def _out_argument(x: Any, y: Any) -> tuple[Any, ...]:
    torch.add(x, y, out=x)
    return (x * 2,)


def _batch_norm(x: Any, mean: Any, variance: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
    return (functional.batch_norm(x, mean, variance, weight, bias, training=True),)


def _transpose_in_place(x: Any, y: Any) -> tuple[Any, ...]:
    x.t_()
    return (x @ y,)


def _index_put(x: Any, y: Any, index: Any) -> tuple[Any, ...]:
    x.index_put_((index,), y)
    return (x.sum(),)


def _reads(x: Any, y: Any) -> tuple[Any, ...]:
    return (x + y).relu(), (x @ y).softmax(-1), x.t().contiguous(), y.clone().add_(1)


def _two() -> Sequence[torch.Tensor]:
    return torch.randn(3, 3), torch.randn(3, 3)


def _batch_norm_inputs() -> Sequence[torch.Tensor]:
    return torch.randn(4, 3), torch.zeros(3), torch.ones(3), torch.rand(3), torch.rand(3)


PROGRAMS = [
    Program("add in place", _add_in_place, _two),
    Program("changed input returned", _add_and_return, _two),
    Program("no output", _without_output, _two),
    Program("view of an input", _change_view, _two),
    Program("transposed view of an input", _change_through_transpose, _two),
    Program("read before and after", _read_before_and_after, _two),
    Program("two inputs", _change_both, _two),
    Program("integer counter", _count, lambda: (torch.randn(3), torch.tensor(0))),
    Program("out argument", _out_argument, _two),
    Program("batch norm statistics", _batch_norm, _batch_norm_inputs),
    Program("index put", _index_put, lambda: (torch.randn(4, 2), torch.randn(2), torch.tensor(1))),
    Program("not contiguous", _add_in_place, lambda: (torch.randn(3, 4).t(), torch.randn(4, 3))),
]

METADATA_PROGRAMS = [Program("transpose in place", _transpose_in_place, lambda: (torch.randn(2, 3), torch.randn(2, 2)))]


class MutationTests(ConformanceTests):
    """What a graph does to its inputs is seen by the caller as in eager."""

    theme = Theme.MUTATION

    @program_ids(PROGRAMS)
    def test_changed_input(self, resolved: ResolvedBackend, program: Program) -> None:
        """Values of the inputs after the call, and results that depend on the order of changes."""
        self.require(resolved, "mutation")
        self.check(resolved, program)

    @program_ids(METADATA_PROGRAMS)
    def test_changed_metadata(self, resolved: ResolvedBackend, program: Program) -> None:
        """Sizes and strides of an input change."""
        self.require(resolved, "mutation")
        self.check(resolved, program)

    @program_ids(PROGRAMS)
    def test_version_counter(self, resolved: ResolvedBackend, program: Program) -> None:
        """A changed input's version counter moves, so that autograd notices the change elsewhere."""
        self.require(resolved, "mutation")
        self.require_program(resolved, program)
        compiled, eager = program.inputs(self.device), program.inputs(self.device)
        compiled_program = compile_program(resolved, program, program.inputs(self.device))
        before = [tensor._version for tensor in compiled]
        compiled_program(*compiled)
        program.function(*eager)
        for index, (ours, theirs, start) in enumerate(zip(compiled, eager, before, strict=True)):
            # One way only: some of eager's kernels change a tensor and leave its counter, which no backend need repeat.
            if theirs._version > start:
                assert ours._version > start, f"input {index} was changed, but its version counter stands still"

    def test_unchanged_inputs(self, resolved: ResolvedBackend) -> None:
        """An input that the graph only reads is not written to, not even to be put back."""
        program = Program("reads", _reads, _two)
        inputs = program.inputs(self.device)
        before = [(tensor.clone(), tensor._version) for tensor in inputs]
        compiled = compile_program(resolved, program, program.inputs(self.device))
        for _ in range(2):
            compiled(*inputs)
        for index, (tensor, (value, version)) in enumerate(zip(inputs, before, strict=True)):
            assert torch.equal(tensor, value), f"input {index} has other values after the call"
            assert tensor._version == version, f"input {index} was written to: its version counter moved"
