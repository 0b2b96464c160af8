"""What was captured of each code object, and what came of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from types import CodeType

import graphwright._native as _native
from graphwright.cache_key import CacheKey
from graphwright.guards.failure import Recompile
from graphwright.resume import RESUME_FUNCTIONS
from graphwright.shapes.seen import SeenShapes
from graphwright.weak_identity import WeakIdentityMap
from graphwright_plugins import GraphReport

_MAX_FAILED_CAPTURES = 4
"""After so many captures of one code object came to nothing, it is left to the interpreter for good."""

_MAX_REMEMBERED = 32
"""How many recompiles and graphs of a code object are remembered, for `explain_recompiles` and `backend_report`."""


@dataclass(slots=True)
class CodeHistory:
    """What happened to one code object under one key."""

    captures: int = 0
    failures: int = 0
    seen: SeenShapes = field(default_factory=SeenShapes)
    empty: int = 0
    """Captures since the last that had a graph, those of resume functions included."""
    fixed: dict[str, str] = field(default_factory=dict)
    """Sizes and numbers that the program asked for, each with where it did."""
    recompiles: deque[Recompile] = field(default_factory=lambda: deque(maxlen=_MAX_REMEMBERED))
    reports: deque[GraphReport] = field(default_factory=lambda: deque(maxlen=_MAX_REMEMBERED))

    def flag_after_failure(self) -> int | None:
        """Count a capture that came to nothing; what to mark the code with, None for another try."""
        self.failures += 1
        return _native.RUN_ONLY if self.failures >= _MAX_FAILED_CAPTURES else None

    def latest_reason(self) -> str:
        """Why the latest recompile was asked for; empty before the first."""
        latest = self.recompiles.copy()
        return str(latest[-1].failures[0]) if latest else ""


class _Histories:
    """Histories by code object and key; those of dead ones go with them."""

    def __init__(self) -> None:
        self._by_code: WeakIdentityMap[CodeType, WeakIdentityMap[CacheKey, CodeHistory]] = WeakIdentityMap()

    def of(self, code: CodeType, key: CacheKey) -> CodeHistory:
        by_key = self._by_code.setdefault(code, WeakIdentityMap())
        return by_key.setdefault(key, CodeHistory())

    def of_code(self, code: CodeType) -> list[tuple[CacheKey, CodeHistory]]:
        by_key = self._by_code.get(code)
        return [] if by_key is None else by_key.items()

    def clear(self) -> None:
        self._by_code.clear()


_histories = _Histories()


def history_of(code: CodeType, key: CacheKey) -> CodeHistory:
    """What happened to a code object under a key, for capture to add to."""
    return _histories.of(code, key)


def history_of_all(code: CodeType, key: CacheKey) -> CodeHistory:
    """That of the function which a resume function goes on with; of any other code its own."""
    return _histories.of(RESUME_FUNCTIONS.original_of(code), key)


def forget_histories() -> None:
    """Forget all counts of captures, as `graphwright.reset` does."""
    _histories.clear()


@dataclass(frozen=True, slots=True)
class CaptureHistory:
    """What was captured of a code object, for one way to compile."""

    key: CacheKey
    captures: int
    """Captures made, those whose entries are gone included."""
    entries: int
    """Entries there are."""
    is_run_only: bool
    """Whether what fits no entry runs in eager."""
    fixed: tuple[tuple[str, str], ...]
    """Sizes and numbers that the program asked for, each with where it did."""
    recompiles: tuple[Recompile, ...]
    """The calls that no entry fitted, in order."""
    reports: tuple[GraphReport, ...]
    """What backends made of its graphs, in order."""


def histories_of(code: CodeType) -> list[CaptureHistory]:
    """What was captured of a code object since the last reset, for each way it was compiled in."""
    return [
        CaptureHistory(
            key,
            history.captures,
            len(_native.entries(code, key)),
            bool(_native.flags(code, key) & _native.RUN_ONLY),
            tuple(history.fixed.copy().items()),  # another thread may add to it
            tuple(history.recompiles.copy()),
            tuple(history.reports.copy()),
        )
        for key, history in _histories.of_code(code)
    ]
