"""What a backend can't do, and errors while it compiles or its compiled graphs run."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from graphwright_plugins.errors import UnsupportedGraph
from graphwright_plugins.protocol import COMPLEX_DTYPES, FLOATING_DTYPES, INTEGER_DTYPES
from graphwright_plugins.report import GraphReport, collecting
from graphwright_plugins.resolve import ResolvedBackend
from graphwright_plugins.supports import NO_REASON

from .base import REFUSALS, ConformanceTests, call
from .numerics import sample
from .program import Program, compile_program
from .themes import Theme

GOOD = Program("good", lambda x: (x * 2 + 1, x.sum()), lambda: (torch.randn(3),))


class ErrorTests(ConformanceTests):
    """What is wrong is said, by the right exception, and the next call works."""

    theme = Theme.ERRORS

    def test_error_while_running(self, resolved: ResolvedBackend) -> None:
        """An error that only the data can cause is eager's, and a later good call works."""
        program = Program("index", lambda x, index: (x[index] * 2,), lambda: (torch.randn(3), torch.tensor([0, 2])))
        self.require_program(resolved, program)
        inputs = program.inputs(self.device)
        compiled = compile_program(resolved, program, inputs)
        if self.device != "cpu":
            pytest.skip("an index out of range is an assertion on the device, which ends the process's use of it")
        with pytest.raises(IndexError):
            call(compiled, [inputs[0], torch.tensor([0, 9])])
        torch.testing.assert_close(call(compiled, inputs)[0], program.function(*inputs)[0])

    def test_beyond_dtypes(self, resolved: ResolvedBackend) -> None:
        """A graph of a dtype that isn't claimed is refused, with a reason; nothing else runs it in silence.

        Refused as a whole, or by `supports` node by node; then the fallback runs it, and the report has the reasons.
        """
        others = (FLOATING_DTYPES | INTEGER_DTYPES | COMPLEX_DTYPES) - resolved.capabilities.dtypes
        if not others:
            self.not_declared(f"backend {resolved.name!r} claims all dtypes")
        for dtype in sorted(others, key=str):
            self._check_refused(resolved, dtype)
        dtype = min(resolved.capabilities.dtypes, key=str)
        self.check(resolved, self._program(dtype))

    def _check_refused(self, resolved: ResolvedBackend, dtype: torch.dtype) -> None:
        program = self._program(dtype)
        try:
            with collecting() as collector:
                compiled = compile_program(resolved, program, program.inputs(self.device))
        except UnsupportedGraph as error:
            refusal = error
        else:
            self._check_left_out(resolved, dtype, collector.reports)
            self.check_call(resolved, compiled, program, program.inputs(self.device), seed=0)
            return
        assert refusal.reason, f"the refusal of {dtype} has no reason"
        assert str(refusal), f"the refusal of {dtype} has no message"

    def _check_left_out(self, resolved: ResolvedBackend, dtype: torch.dtype, reports: Sequence[GraphReport]) -> None:
        """All of a graph that was compiled runs on the fallback, with reasons."""
        reasons = [refusal.reason for report in reports for refusal in report.refusals]
        if not reasons or any(report.outcome != "fallback" for report in reports):
            pytest.fail(
                f"backend {resolved.name!r} doesn't claim {dtype}, and compiled a graph of it all the same: claim it, "
                "or refuse it, by supports() or UnsupportedGraph; users never learn of what something else does in "
                "its place"
            )
        assert NO_REASON not in reasons, f"supports() refuses {dtype} without a reason"

    def _program(self, dtype: torch.dtype) -> Program:
        return Program(str(dtype), _stacked, lambda: (sample((3, 4), dtype), sample((3, 4), dtype)))

    def test_refusal_leaves_nothing(self, resolved: ResolvedBackend) -> None:
        """A graph whose sizes depend on values may be refused, by a typed error; the next graph works."""
        program = Program("unknown sizes", lambda x: ((x > 0).nonzero(),), lambda: (torch.randn(8),))
        self.require_program(resolved, program)
        for _ in range(2):
            try:
                compiled = compile_program(resolved, program, program.inputs(self.device))
            except REFUSALS:
                pass
            else:
                self.check_call(resolved, compiled, program, program.inputs(self.device), seed=0)
            self.check(resolved, GOOD)

    def test_error_in_backward(self, resolved: ResolvedBackend) -> None:
        """An error of the program's in a backward pass passes through, and later passes work."""
        self.require(resolved, "training")
        program = Program("square", lambda x: (x * x,), lambda: (torch.randn(3, requires_grad=True),))
        compiled = compile_program(resolved, program, program.inputs(self.device))
        (x,) = program.inputs(self.device)
        (failing,) = call(compiled, [x])
        failing.register_hook(_raise)
        with pytest.raises(LookupError, match="by the kit"):
            failing.sum().backward()
        assert x.grad is None, f"a backward pass that raised left the gradient {x.grad}"
        (result,) = call(compiled, [x])
        result.sum().backward()
        torch.testing.assert_close(x.grad, 2 * x.detach())


def _stacked(x: Any, y: Any) -> tuple[Any, ...]:
    return (torch.cat([x, y]), x.reshape(-1))


def _raise(gradient: torch.Tensor) -> torch.Tensor:
    raise LookupError("by the kit")
