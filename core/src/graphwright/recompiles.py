"""`explain_recompiles(fn)`: what was captured of a function so far, and why more than once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

import graphwright._native as _native
from graphwright.compiled_module import original_module
from graphwright.exc import CodeLocation, CompileArgumentError
from graphwright.frame import CaptureHistory, histories_of
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
        for original in _codes(fn)
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


def _codes(fn: Any) -> Iterator[CodeType]:
    if isinstance(fn, torch.nn.Module):
        module = original_module(fn) or fn
        yield from _codes(module.__dict__.get("forward") or inspect.getattr_static(type(module), "forward"))
        return
    if isinstance(fn, (MethodType, classmethod, staticmethod)):
        fn = fn.__func__
    if isinstance(fn, functools.partial):
        yield from _codes(fn.func)
    elif isinstance(fn, _native.Compiled):
        yield from _codes(fn.__wrapped__)
    elif isinstance(fn, FunctionType):
        yield fn.__code__
    else:
        call = inspect.getattr_static(type(fn), "__call__", None)
        if not isinstance(call, (FunctionType, _native.Compiled)):
            raise CompileArgumentError(f"graphwright.explain_recompiles: {fn!r} has no Python code")
        yield from _codes(call)


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or one + 's'}"
