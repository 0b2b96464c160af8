"""One compiled graph for many sizes."""

from typing import Any

import torch

from graphwright_plugins.resolve import ResolvedBackend

from .base import ConformanceTests, program_ids
from .program import Program, compile_symbolic


def _normalise(x: Any, y: Any) -> tuple[Any, ...]:
    centred = x - x.mean(0)
    return (centred / (1 + centred.abs().sum(0)), y.sum(0))


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
    ]


class DynamicShapeTests(ConformanceTests):
    """A graph compiled with symbolic sizes gives eager's results for every size."""

    @program_ids(programs(4))
    def test_sizes(self, resolved: ResolvedBackend, program: Program) -> None:
        """Compiled for four rows with the number of rows symbolic, called with others."""
        self.require(resolved, "dynamic_shapes")
        inputs = program.inputs(self.device)
        compiled = compile_symbolic(resolved, program, inputs, dynamic_dims=[0])
        for rows in (4, 2, 7, 16):
            same = next(candidate for candidate in programs(rows) if candidate.id == program.id)
            self.check_call(resolved, compiled, same, same.inputs(self.device, seed=rows), seed=rows)
