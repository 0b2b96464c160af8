"""Code that is left to the interpreter, and captures that are made again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphwright.events.base import Event

if TYPE_CHECKING:
    from graphwright.guards.failure import GuardFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSkipped(Event):
    """A frame is left to the interpreter as a whole."""

    function: str
    reason: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompiled(Event):
    """A function that has entries is captured once more; says why none of them fits, latest entry first."""

    function: str
    reasons: tuple[str, ...]
    failures: tuple[GuardFailure, ...] = ()
    """The reasons as data, with what to do about each."""

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return self.failures[0].advice if self.failures else ""

    @property
    def reason(self) -> str:
        """Why the latest entry did not fit."""
        return self.reasons[0] if self.reasons else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLimitHit(Event):
    """A function has as many entries as it may have: from now on what misses them runs in eager."""

    function: str
    limit: int
    reason: str
    """Why the last capture was asked for."""
    setting: str = "recompile_limit"
    remedy: str = ""
    """What to do about that reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFailed(Event):
    """A compiled graph raised when it was called."""

    function: str
    graph_name: str
    backend: str
    error: Exception
    runs_in_eager: bool
    """Whether the call runs in eager now, from its start; it cannot where the graph has changed something already."""
    loses_effects: bool
    """Whether Python objects lack changes that the function made before the operation that failed."""
    is_asked_for: bool = False
    """Whether the call ends with the error since `on_backend_error="raise"` asks for that, and not as it has to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalErrorCaught(Event):
    """Capture met a bug of Graphwright's own; the frame runs in eager."""

    function: str
    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismOff(Event):
    """Part of Graphwright does not work on this machine; what stands in for it is slower or does less."""

    mechanism: str
    reason: str
    remedy: str = ""
