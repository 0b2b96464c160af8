"""One compiled graph for many sizes."""

from typing import Any

import torch

from graphwright_plugins.resolve import ResolvedBackend

from .base import REFUSALS, ConformanceTests, call, program_ids
from .comparison import assert_same_values
from .program import Program, compile_program, compile_symbolic, compile_with_size
from .themes import Theme


def _normalise(x: Any, y: Any) -> tuple[Any, ...]:
    centred = x - x.mean(0)
    return (centred / (1 + centred.abs().sum(0)), y.sum(0))


def _size_as_data(x: Any, y: Any) -> tuple[Any, ...]:
    rows = x.size(0)
    return x.sum(0) / rows, y * (rows + 1), x.new_ones((rows * 2,)).cumsum(0), x.new_zeros((rows, 2))


def _sums_and_products(x: Any, y: Any) -> tuple[Any, ...]:
    joined = torch.cat([x, y, x])
    return joined.sum(1), joined.reshape(-1) * 2, (x[:, :, None] * y[:, None, :]).reshape(x.size(0) * 3, 3)


def _pair(rows: int) -> Any:
    return lambda: (torch.randn(rows, 3), torch.randn(rows, 3))


def programs(rows: int) -> list[Program]:
    """The programs on inputs with this many rows."""
    return [
        Program("elementwise", lambda x, y: (x + y * 2, x > y), _pair(rows)),
        Program("reduction", _normalise, _pair(rows)),
        Program("matmul", lambda x, y: (x @ y.t(), x.t() @ y), _pair(rows)),
        Program("joined", lambda x, y: (torch.cat([x, y]), torch.stack([x, y])), _pair(rows)),
        Program("reshaped", lambda x, y: ((x + y).reshape(-1), (x * y).view(-1, 1)), _pair(rows)),
        Program("sliced", lambda x, y: (x[1:] + y[:-1], (x + y)[::2]), _pair(rows)),
        Program("size as data", _size_as_data, _pair(rows)),
        Program("sums and products", _sums_and_products, _pair(rows)),
    ]


def _squares(rows: int, columns: int) -> Program:
    return Program(
        "two sizes",
        lambda x, y: (x @ y.t(), (x * y).sum(0), torch.cat([x, y], 1), (x + y).t().reshape(-1)),
        lambda: (torch.randn(rows, columns), torch.randn(rows, columns)),
    )


def _rows_given(x: Any, rows: Any) -> tuple[Any, ...]:
    return x.reshape(rows, -1) * 2, x.sum(0) / rows, x.new_zeros((rows + 1,))


class DynamicShapeTests(ConformanceTests):
    """A graph compiled with symbolic sizes gives eager's results for every size."""

    theme = Theme.DYNAMIC_SHAPES

    @program_ids(programs(4))
    def test_sizes(self, resolved: ResolvedBackend, program: Program) -> None:
        """Compiled for four rows with the number of rows symbolic, called with others."""
        self.require(resolved, "dynamic_shapes")
        self.require_program(resolved, program)
        inputs = program.inputs(self.device)
        compiled = compile_symbolic(resolved, program, inputs, dynamic_dims=[0])
        for rows in (4, 2, 7, 16):
            same = next(candidate for candidate in programs(rows) if candidate.id == program.id)
            self.check_call(resolved, compiled, same, same.inputs(self.device, seed=rows), seed=rows)

    def test_two_sizes(self, resolved: ResolvedBackend) -> None:
        """Rows and columns are symbolic, and vary by themselves."""
        self.require(resolved, "dynamic_shapes")
        inputs = _squares(4, 6).inputs(self.device)
        compiled = compile_symbolic(resolved, _squares(4, 6), inputs, dynamic_dims=[0, 1])
        for rows, columns in ((4, 6), (6, 4), (2, 9), (5, 5)):
            same = _squares(rows, columns)
            self.check_call(resolved, compiled, same, same.inputs(self.device, seed=rows), seed=rows)

    def test_size_as_input(self, resolved: ResolvedBackend) -> None:
        """A size is an input of its own, as a number."""
        self.require(resolved, "dynamic_shapes")
        program = Program("rows", _rows_given, lambda: (torch.randn(4, 3), 4))
        compiled = compile_with_size(resolved, program, program.inputs(self.device)[0])
        for rows in (4, 3, 11):
            x = torch.randn(rows, 3, device=self.device)
            assert_same_values(_rows_given(x, rows), call(compiled, [x, rows]), resolved.capabilities, "output")

    def test_not_claimed(self, resolved: ResolvedBackend) -> None:
        """A backend without dynamic shapes gets graphs of fixed sizes, and is right for the sizes it was given."""
        if resolved.capabilities.dynamic_shapes:
            self.not_declared(f"backend {resolved.name!r} claims dynamic shapes, which the other tests try")
        for rows in (4, 7):
            program = programs(rows)[1]
            inputs = program.inputs(self.device)
            compiled = compile_symbolic(resolved, program, inputs, dynamic_dims=[0])
            self.check_call(resolved, compiled, program, inputs, seed=0)

    def test_size_from_data(self, resolved: ResolvedBackend) -> None:
        """A size that depends on values is right for all values, or refused by a typed error."""
        program = Program("nonzero", lambda x: (x[x > 0] * 2, (x > 0).nonzero()), lambda: (torch.randn(16),))
        self.require_program(resolved, program)
        try:
            compiled = compile_program(resolved, program, program.inputs(self.device))
        except REFUSALS:
            return
        for seed in range(3):
            self.check_call(resolved, compiled, program, program.inputs(self.device, seed), seed)
