"""`explain_recompiles(fn)`: what was captured of a function so far, and why more than once."""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType
from typing import Any

from graphwright.code_objects import codes_of
from graphwright.exc import CodeLocation
from graphwright.frames.history import CaptureHistory, histories_of
from graphwright.guards.failure import Recompile
from graphwright.resume import RESUME_FUNCTIONS


@dataclass(frozen=True)
class CacheReport:
    """The entries of one code object for one way to compile."""

    function: str
    """The function, by its qualified name; one that resumes after a graph break says where."""
    location: CodeLocation
    """Where it starts."""
    backend: str
    """The backend's name."""
    dynamic: bool | None
    """What `compile` was told of sizes."""
    captures: int
    """How many times it was captured, entries dropped since then included."""
    entries: int
    """How many entries there are."""
    is_run_only: bool
    """Whether it has as many entries as it may have, so that what fits none runs in eager."""
    fixed: tuple[tuple[str, str], ...]
    """Sizes and numbers that the program asked for and so can't vary, each with where it did."""
    recompiles: tuple[Recompile, ...]
    """The last calls that no entry fitted, in order, each with the guards that failed and what to do."""

    def __str__(self) -> str:
        only = ", and no more: calls that fit none run in eager" if self.is_run_only else ""
        lines = [
            f"{self.function} ({self.location}), backend {self.backend}, dynamic={self.dynamic}: "
            f"{_count(self.captures, 'capture')}, {_count(self.entries, 'entry', 'entries')}{only}"
        ]
        for source, asked_at in self.fixed:
            lines.append(f"  {source} is fixed, as the program asks for its value{':' if asked_at else ''}")
            lines += [f"    {line}" for line in asked_at.rstrip().splitlines()]
        for number, recompile in enumerate(self.recompiles, 1):
            what = "captured once more" if recompile.captured else "left to eager"
            lines.append(f"  {number}. {what}, as no entry fits (latest first):")
            lines += [f"    - {failure}" for failure in recompile.failures]
            lines += [f"    What to do: {recompile.advice}"] if recompile.advice else []
        return "\n".join(lines)


@dataclass(frozen=True)
class RecompileReport:
    """What was captured of a function and of the functions that resume it, in every way it was compiled in."""

    caches: tuple[CacheReport, ...]

    @property
    def recompiles(self) -> tuple[Recompile, ...]:
        """All recompiles, those of the function before those of the functions that resume it."""
        return tuple(recompile for cache in self.caches for recompile in cache.recompiles)

    @property
    def captures(self) -> int:
        """All captures."""
        return sum(cache.captures for cache in self.caches)

    def __str__(self) -> str:
        return "\n".join(map(str, self.caches)) or "nothing was captured since the last reset"


def explain_recompiles(fn: Any) -> RecompileReport:
    """Tell why a function was captured more than once; calls nothing.

    Args:
        fn: A function, method, partial, object with a `__call__`, or module, compiled or not.

    Returns:
        A report, as data and as text: for each recompile which guard failed in each entry, what was expected and what
        came, and what to do about it. It covers the time since the last `reset`, the functions that resume `fn` after a
        graph break, and all ways in which `fn` was compiled. Functions that `fn` calls beyond a graph break are apart.

    Raises:
        CompileArgumentError: `fn` has no Python code.
    """
    reports = [
        _report(code, history)
        for original in codes_of(fn, "explain_recompiles")
        for code in (original, *RESUME_FUNCTIONS.made_from(original))
        for history in histories_of(code)
        if history.captures or history.recompiles
    ]
    return RecompileReport(tuple(reports))


def _report(code: CodeType, history: CaptureHistory) -> CacheReport:
    return CacheReport(
        function=RESUME_FUNCTIONS.name_of(code),
        location=CodeLocation(code.co_filename, code.co_firstlineno, code.co_qualname),
        backend=history.key.backend_name,
        dynamic=history.key.dynamic,
        captures=history.captures,
        entries=history.entries,
        is_run_only=history.is_run_only,
        fixed=history.fixed,
        recompiles=history.recompiles,
    )


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or one + 's'}"
