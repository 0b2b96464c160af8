"""How a compiled graph is called, and what it returns: any number of tensors, numbers and None, in order."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from graphwright_plugins.resolve import ResolvedBackend

from .base import ConformanceTests, call, program_ids
from .comparison import assert_same_value
from .program import Program, compile_graph, compile_program
from .themes import Theme


def _vector() -> Sequence[torch.Tensor]:
    return (torch.randn(3),)


def _of_40(*inputs: Any) -> tuple[Any, ...]:
    return tuple(x + index for index, x in enumerate(inputs))


def _repeated(x: Any) -> tuple[Any, ...]:
    y = x * 2
    return y, x + 1, y, None, y


def _of_rank_0(x: Any, y: Any) -> tuple[Any, ...]:
    return x + y, x.sum(), y * 2, (x * y).mean(), y.reshape(1)


PLAIN_VALUES = [
    Program("None among the outputs", lambda x: (x + 1, None, x * 2), _vector),
    Program("numbers among the outputs", lambda x: (x + 1, 3, 2.5, True), _vector),
    Program("no tensor among the outputs", lambda x: (None, 3), _vector),
    Program("integer input", lambda x, n: (x * n, x + n), lambda: (torch.randn(3), 5)),
    Program("float and bool inputs", lambda x, f, b: (x * f, x + b), lambda: (torch.randn(3), 0.5, True)),
]

OUTPUTS = [
    Program("nothing", lambda x: (), _vector),
    Program("one", lambda x: (x + 1,), _vector),
    Program("one value several times", _repeated, _vector),
    Program("rank 0", _of_rank_0, lambda: (torch.randn(3), torch.tensor(2.0))),
    Program("one element", lambda x: (x.sum(0, keepdim=True), x[0], x[:1]), _vector),
    Program("no element", lambda x: (x[:0], x[3:].sum()), _vector),
    Program("views of an intermediate", lambda x: _views(x * 2), lambda: (torch.randn(2, 3),)),
    Program("transposed intermediate", lambda x: ((x * 2).t(), (x + 1).t().contiguous()), lambda: (torch.randn(2, 3),)),
    Program("only the last input is used", lambda x, y, z: (z * 2,), lambda: [torch.randn(3) for _ in range(3)]),
]


def _views(value: Any) -> tuple[Any, ...]:
    return value[0], value.t(), value, value.reshape(-1)[1:]


class CallingTests(ConformanceTests):
    """A compiled graph takes its inputs positionally, and returns its outputs in order, each what it is in eager."""

    theme = Theme.CALLING_CONVENTION

    @program_ids(PLAIN_VALUES)
    def test_plain_values(self, resolved: ResolvedBackend, program: Program) -> None:
        """Values other than tensors go in and out."""
        self.check(resolved, program)

    @program_ids(OUTPUTS)
    def test_outputs(self, resolved: ResolvedBackend, program: Program) -> None:
        """How many outputs there are, what rank they have, and which are one object or share memory."""
        self.check(resolved, program)

    def test_no_inputs(self, resolved: ResolvedBackend) -> None:
        """A graph that makes its result from nothing."""
        graph = fx.Graph()
        graph.output((graph.call_function(torch.full, ((2, 3), 1.5), {"device": self.device}),))
        compiled = compile_graph(resolved, fx.GraphModule(torch.nn.Module(), graph), [])
        for _ in range(2):
            (result,) = call(compiled, [])
            expected = torch.full((2, 3), 1.5, device=self.device)
            assert torch.equal(result, expected), f"a graph without inputs gives {result} instead of {expected}"

    def test_many_inputs(self, resolved: ResolvedBackend) -> None:
        """Forty inputs and outputs, in order."""
        names = [f"x{index}" for index in range(40)]
        graph = fx.Graph()
        inputs = [graph.placeholder(name) for name in names]
        graph.output(tuple(graph.call_function(torch.add, (x, index)) for index, x in enumerate(inputs)))
        values = [torch.randn(2, device=self.device) for _ in names]
        compiled = compile_graph(resolved, fx.GraphModule(torch.nn.Module(), graph), values)
        for index, (actual, expected) in enumerate(zip(call(compiled, values), _of_40(*values), strict=True)):
            assert_same_value(expected, actual, resolved.capabilities, f"output {index}")

    def test_input_list_left_alone(self, resolved: ResolvedBackend) -> None:
        """Inputs are taken positionally: a list that the caller spreads out is its own."""
        program = OUTPUTS[3]
        inputs = program.inputs(self.device)
        compiled = compile_program(resolved, program, inputs)
        call(compiled, inputs)
        assert len(inputs) == 2, f"a call took {2 - len(inputs)} of the caller's inputs out of its list"
        self.check_call(resolved, compiled, program, inputs, seed=0)

    def test_results_are_the_callers(self, resolved: ResolvedBackend) -> None:
        """A later call doesn't change what an earlier one returned; nor does the caller, what a later one returns."""
        program = Program("results", lambda x: (x * 2, (x + 1).sum()), _vector)
        compiled = compile_program(resolved, program, program.inputs(self.device))
        first = call(compiled, program.inputs(self.device, seed=1))
        kept = [value.clone() for value in first]
        self.check_call(resolved, compiled, program, program.inputs(self.device, seed=2), seed=2)
        assert all(map(torch.equal, first, kept)), "a later call changed what an earlier one had returned"
        for value in first:
            value.zero_()
        self.check_call(resolved, compiled, program, program.inputs(self.device, seed=1), seed=1)
