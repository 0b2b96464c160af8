"""Runs one program in eager and compiled, and compares all that a user could see."""

from __future__ import annotations

import contextlib
import io
import itertools
import linecache
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch

import graphwright
from graphwright import config, events
from graphwright.likeness import Likeness, identity_pattern, random_states, seed_all
from gwfuzz.support import Box

STATE = ("G_N", "G_L", "G_D", "G_T", "G_O", "log", "count")
_numbers = itertools.count()


@dataclass
class Record:
    """What one call did."""

    result: Any = None
    error: BaseException | None = None
    lost_effects: bool = False
    """Whether a graph that writes to its inputs raised, so that effects before it are lost."""
    lines: list[int] = field(default_factory=list)
    printed: str = ""
    warned: list[tuple[str, str]] = field(default_factory=list)
    modes: tuple[Any, ...] = ()


@dataclass
class Report:
    """What became of one program."""

    difference: str | None = None
    ops: int = 0
    graphs: int = 0
    breaks: list[str] = field(default_factory=list)
    raised: int = 0
    calls: int = 0
    left_to_eager: list[str] = field(default_factory=list)
    """Why graphs were left to eager by the backend, which is exact and told by an event."""
    lost_effects: int = 0
    """Calls that lost effects because a graph failed after it wrote to inputs: told by an event, and not compared."""


class Side:
    """One of the two runs: a namespace of its own, where the program is defined anew."""

    def __init__(self, source: str, filename: str, wrap: Callable[[Any], Any]) -> None:
        self.filename = filename
        self.namespace: dict[str, Any] = {"__name__": "fuzz_program"}
        exec(compile(source, filename, "exec"), self.namespace)
        self.target: FunctionType = self.namespace["program"]
        self.call = wrap(self.target)
        self.total = 0

    def run(self, number: int, seed: int) -> tuple[Record, Any]:
        """Call the program; gives what it did, and everything that can be reached afterwards."""
        Box.total = self.total
        args, kwargs = self.namespace[f"inputs_{number}"]()
        record = Record()
        seed_all(seed)
        printed = io.StringIO()
        modes = _modes()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(record=True) as warned,
            events.collected(events.GraphFailed) as failed,
        ):
            warnings.simplefilter("always")
            try:
                record.result = self.call(*args, **kwargs)
            except Exception as error:
                record.error = error
                summary = traceback.extract_tb(error.__traceback__)
                if all(event.runs_in_eager for event in failed):
                    record.lines = [frame.lineno or 0 for frame in summary if frame.filename == self.filename]
                record.lost_effects = any(event.loses_effects for event in failed)
        record.printed = printed.getvalue()
        said = [(w.category.__name__, str(w.message)) for w in warned]
        record.warned = [w for w in said if "Triggered internally" not in w[1]]  # those come once in a process
        record.modes = (*_modes(), random_states())
        _restore(modes)
        self.total = Box.total
        state = {name: self.namespace[name] for name in STATE}
        return record, (args, kwargs, record.result, state, self.target.__closure__, self.total)


def _modes() -> tuple[bool, ...]:
    return torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled()


def _restore(modes: tuple[bool, ...]) -> None:
    torch.set_grad_enabled(modes[0])
    torch.set_autocast_enabled("cpu", modes[1])


def check(source: str, backend: str = "eager", calls: tuple[int, ...] = (0, 0, 1, 2)) -> Report:
    """Run a program on both sides and say where they first differ.

    Args:
        source: defines `program`, and `inputs_<n>` for its arguments.
        backend: the backend of the compiled side.
        calls: which arguments to call it with, in turn.
    """
    filename = f"<fuzz {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    report = Report()
    kinds = (events.GraphCaptured, events.GraphBroke, events.GraphLeftToEager, events.InternalErrorCaught)
    try:
        with config.patch(raise_internal_errors=True), events.collected(*kinds) as found:
            report.difference = _compare(source, filename, backend, calls, report)
    finally:
        graphwright.reset()
        linecache.cache.pop(filename, None)
    for event in found:
        if isinstance(event, events.GraphCaptured):
            report.graphs += 1
            report.ops += event.op_count
        elif isinstance(event, events.GraphBroke):
            report.breaks.append(event.gw_id)
        elif isinstance(event, events.GraphLeftToEager):
            report.left_to_eager.append(str(event.error))
        elif report.difference is None or "InternalError" not in report.difference:
            report.difference = f"internal error: {event.error!r}"
    return report


def _compare(source: str, filename: str, backend: str, calls: tuple[int, ...], report: Report) -> str | None:
    eager = Side(source, filename, lambda fn: fn)
    compiled = Side(source, filename, lambda fn: graphwright.compile(fn, backend=backend))
    tolerance = 0.0 if backend == "eager" else 1e-5
    for turn, number in enumerate(calls):
        label = f"call {turn + 1} (inputs_{number})"
        try:
            want, all_wanted = eager.run(number, turn)
        except Exception as error:  # the arguments cannot be made
            return None if _fails_alike(compiled, number, error) else f"{label}: only one side can make its arguments"
        got, all_got = compiled.run(number, turn)
        report.calls += 1
        report.raised += want.error is not None
        if got.lost_effects and _error_difference(got.error, want.error) is None:
            report.lost_effects += 1
            return None
        difference = _record_difference(got, want) or _state_difference(all_got, all_wanted, tolerance)
        if difference is not None:
            return f"{label}: {difference}"
        gradients = _backward(want.result), _backward(got.result)
        if gradients[0] != gradients[1]:
            return f"{label}: backward gives {gradients[1]} instead of {gradients[0]}"
        difference = _state_difference(all_got, all_wanted, tolerance)
        if difference is not None:
            return f"{label}: after backward: {difference}"
    return None


def _fails_alike(side: Side, number: int, error: Exception) -> bool:
    try:
        side.run(number, 0)
    except Exception as other:
        return type(other) is type(error)
    return False


def _record_difference(got: Record, want: Record) -> str | None:
    if got.error is not None and want.error is None:
        return f"raised {got.error!r} ({_origin(got.error)}), eager returned"
    if got.error is None and want.error is not None:
        return f"returned {got.result!r}, eager raised {want.error!r}"
    if got.error is not None and want.error is not None:
        difference = _error_difference(got.error, want.error)
        if difference is not None:
            return f"{difference} ({_origin(got.error)})"
        # CPython 3.11 runs a store and the load after it as one instruction once code is warm, and gives the line of
        # the store where the load fails: for one program it gives two lines, the warm one and the right one.
        tells_line = type(want.error) is not UnboundLocalError
        # An error of a graph comes from no line of the program.
        if tells_line and got.lines and got.lines[-1] != want.lines[-1]:
            return f"traceback: lines {got.lines} instead of {want.lines} of {want.error!r}"
    for name in ("printed", "warned", "modes"):
        if getattr(got, name) != getattr(want, name):
            return f"{name}: {str(getattr(got, name))[:200]} instead of {str(getattr(want, name))[:200]}"
    return None


def _error_difference(got: BaseException | None, want: BaseException | None, where: str = "exception") -> str | None:
    if got is None or want is None:
        return None if got is want else f"{where}: {got!r} instead of {want!r}"
    if type(got) is not type(want) or str(got) != str(want) or vars(got).keys() != vars(want).keys():
        return f"{where}: {got!r} instead of {want!r}"[:600]
    if got.__suppress_context__ != want.__suppress_context__:
        return f"{where}.__suppress_context__: {got.__suppress_context__}"
    return _error_difference(got.__cause__, want.__cause__, f"{where}.__cause__") or _error_difference(
        got.__context__, want.__context__, f"{where}.__context__"
    )


def _origin(error: BaseException) -> str:
    deepest = error
    while deepest.__cause__ is not None:
        deepest = deepest.__cause__
    frames = traceback.extract_tb(deepest.__traceback__)[-3:]
    places = " < ".join(f"{f.filename.rsplit('/', 1)[-1]}:{f.lineno}" for f in reversed(frames))
    return f"{deepest!r}"[:300] + " at " + places


def _state_difference(got: Any, want: Any, tolerance: float) -> str | None:
    names = ("arguments", "keyword arguments", "result", "globals", "closure", "Box.total")
    likeness = Likeness(tolerance, tolerance)
    for name, mine, theirs in zip(names, got, want, strict=True):
        difference = likeness.difference(mine, theirs, name)
        if difference is not None:
            return difference
    shared = [identity_pattern((*side[:4], _contents(side[4])), "all") for side in (got, want)]
    return Likeness().difference(shared[0], shared[1], "objects shared")


def _contents(cells: Any) -> list[Any]:
    return [cell.cell_contents for cell in cells or ()]


def _backward(result: Any) -> str:
    """Accumulate gradients of everything that a result depends on; says what came of it."""
    losses: list[torch.Tensor] = []
    _collect(result, losses, set())
    if not losses:
        return "nothing"
    try:
        torch.autograd.backward([loss.float().sum() for loss in losses])
    except RuntimeError as error:
        return str(error)[:60]
    return "gradients"


def _collect(value: Any, found: list[torch.Tensor], met: set[int]) -> None:
    if id(value) in met:
        return
    met.add(id(value))
    if isinstance(value, torch.Tensor):
        with contextlib.suppress(RuntimeError):  # a view whose history is undefined
            if value.grad_fn is not None:
                found.append(value)
    elif isinstance(value, dict):
        value = list(value.values())
    elif isinstance(value, Box):
        value = list(vars(value).values())
    if isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, found, met)
