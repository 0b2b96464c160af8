"""Graphs of which the backend gets parts: the kit takes a call away, and the framework runs that on the fallback."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
import torch

from graphwright_plugins.errors import BackendResourceError, UnsupportedGraph
from graphwright_plugins.report import GraphReport, collecting
from graphwright_plugins.resolve import ResolvedBackend
from graphwright_plugins.supports import NO_REASON, HasPartitioner, HasSupports

from .base import ConformanceTests, program_ids
from .program import Program, compile_program
from .stand_ins import REFUSED, Failing, Refusing, StandIn
from .themes import Theme
from .training import backward, gradients

SINE: Final = r"\bsin_?\b"
"""What the kit takes away: the sine, as function, method, operator or in place."""


def _two() -> Sequence[torch.Tensor]:
    return torch.randn(3, 4), torch.randn(3, 4)


def _everywhere(x: Any, y: Any) -> tuple[Any, ...]:
    return x.sin().sin(), torch.sin(y), x.sin()


def _circle(x: Any, y: Any) -> tuple[Any, ...]:
    first = x * 2
    return (first + first.sin() * y, first - 1)


def _in_place(x: Any, y: Any) -> tuple[Any, ...]:
    hidden = x + y
    hidden.sin_()
    return hidden * 2, hidden


def _input_in_place(x: Any, y: Any) -> tuple[Any, ...]:
    x.add_(1)
    z = x.sin() * y
    x.mul_(2)
    return z, x + y


def _view_in_place(x: Any, y: Any) -> tuple[Any, ...]:
    hidden = x * y
    row = hidden[0]
    row.sin_()
    return hidden + 1, row * 2


def _outputs(x: Any, y: Any) -> tuple[Any, ...]:
    hidden = x.sin()
    return x, hidden, hidden, None, hidden + 1, 3


PROGRAMS = [
    Program("at the start", lambda x, y: ((x.sin() * y + 1).relu(),), _two),
    Program("in the middle", lambda x, y: ((x * y + 1).sin() * 2 - y,), _two),
    Program("at the end", lambda x, y: ((x * y + 1).relu().sin(),), _two),
    Program("twice", lambda x, y: ((x * 2).sin() + (y * 3).sin() * x, y - 1), _two),
    Program("everywhere", _everywhere, _two),
    Program("a cut that would go in circles", _circle, _two),
    Program("in place at a border", _in_place, _two),
    Program("an input in place around it", _input_in_place, _two),
    Program("a view in place at a border", _view_in_place, _two),
    Program("outputs of several kinds", _outputs, _two),
]


class PartitionTests(ConformanceTests):
    """Results are eager's when the backend gets a graph in parts, and the report says which calls it didn't get."""

    theme = Theme.PARTITION

    @program_ids(PROGRAMS)
    def test_position(self, resolved: ResolvedBackend, program: Program) -> None:
        """A call that the backend can't do, at each place of a graph, and as one with an effect."""
        if "in place" in program.id:
            self.require(resolved, "mutation")
        cut = self._refusing(resolved)
        with collecting() as collector:
            compiled = compile_program(cut, program, program.inputs(self.device))
        for seed in range(2):
            self.check_call(resolved, compiled, program, program.inputs(self.device, seed), seed)
        self._check_reasons(collector.reports)

    def test_gradients(self, resolved: ResolvedBackend) -> None:
        """Gradients flow through parts."""
        self.require(resolved, "training")

        def leaves(seed: int) -> list[torch.Tensor]:
            return [value.requires_grad_() for value in PROGRAMS[1].inputs(self.device, seed)]

        compiled = compile_program(self._refusing(resolved), PROGRAMS[1], leaves(0))
        for seed in range(2):
            ours, theirs = leaves(seed), leaves(seed)
            backward(compiled(*ours))
            backward(PROGRAMS[1].function(*theirs))
            for actual, expected in zip(gradients(ours), gradients(theirs), strict=True):
                torch.testing.assert_close(actual, expected)

    def test_own_parts(self, resolved: ResolvedBackend) -> None:
        """What the backend itself leaves to others has reasons, and results are right."""
        if not isinstance(resolved.backend, (HasSupports, HasPartitioner)):
            self.not_declared(f"backend {resolved.name!r} takes whole graphs: it has no supports() and no partition()")
        for program in PROGRAMS:
            with collecting() as collector:
                compiled = compile_program(resolved, program, program.inputs(self.device))
            self.check_call(resolved, compiled, program, program.inputs(self.device), seed=0)
            for report in collector.reports:
                silent = [str(refusal) for refusal in report.refusals if refusal.reason == NO_REASON]
                assert not silent, f"supports() refuses without a reason: {'; '.join(silent)}"

    @pytest.mark.parametrize("error", [UnsupportedGraph, BackendResourceError, ZeroDivisionError])
    def test_failure_raises(self, resolved: ResolvedBackend, error: type[Exception]) -> None:
        """By default an error while compiling is the user's to see."""
        program = self._reaching(resolved)[0]
        failing = replace(resolved, backend=Failing(resolved, error("by the kit")))
        with pytest.raises(error, match="by the kit"):
            compile_program(failing, program, program.inputs(self.device))
        self.check(resolved, program)

    @pytest.mark.parametrize("error", [UnsupportedGraph, BackendResourceError, ZeroDivisionError])
    def test_failure_falls_back(self, resolved: ResolvedBackend, error: type[Exception]) -> None:
        """Where the user asks for it, the fallback runs the graph that the backend was at, and the report says why."""
        failing = replace(resolved, backend=Failing(resolved, error("by the kit")), on_error="fallback")
        for program in self._reaching(resolved):
            with collecting() as collector:
                compiled = compile_program(failing, program, program.inputs(self.device))
            for seed in range(2):
                self.check_call(resolved, compiled, program, program.inputs(self.device, seed), seed)
            failures = [failure for report in collector.reports for failure in report.failures]
            assert any("by the kit" in failure.message for failure in failures), "the report doesn't say what failed"

    def _reaching(self, resolved: ResolvedBackend) -> list[Program]:
        """One or two programs of which the backend gets something: what it doesn't get it can't fail on."""
        found = []
        for program in (PROGRAMS[1], PROGRAMS[-1], *PROGRAMS):
            if "in place" not in program.id:
                counting = StandIn(resolved)
                compile_program(replace(resolved, backend=counting), program, program.inputs(self.device))
                found += [program] if counting.compiled else []
            if len(found) == 2:
                break
        return found or self.not_declared(f"backend {resolved.name!r} does nothing in the kit's programs for this")

    def _refusing(self, resolved: ResolvedBackend) -> ResolvedBackend:
        if isinstance(resolved.backend, HasPartitioner):
            self.not_declared(f"backend {resolved.name!r} chooses its parts itself")
        return replace(resolved, backend=Refusing(resolved, SINE))

    def _check_reasons(self, reports: Sequence[GraphReport]) -> None:
        refusals = [refusal for report in reports for refusal in report.refusals]
        assert any(refusal.reason == REFUSED for refusal in refusals), "the report doesn't say what wasn't supported"
        assert any(report.outcome in ("parts", "fallback") for report in reports), "the report doesn't say who ran it"
