"""What becomes of a frame that cannot be captured."""

from __future__ import annotations

import graphwright.events as events
import graphwright.graph_breaks as gb
from graphwright.cache_key import CacheKey
from graphwright.exc import GraphBreak, InternalError, TorchRuntimeError, Unsupported
from graphwright.frames.history import CodeHistory


def left_to_interpreter(
    signal: GraphBreak, site: events.CaptureSite, key: CacheKey, history: CodeHistory
) -> int | None:
    """What to do with a frame that breaks where nothing can be captured, or may not break.

    Raises:
        Unsupported: under `fullgraph=True`.
        TorchRuntimeError: likewise, where an operation of torch fails.
    """
    kind = signal.kind
    location = signal.location or site.location
    flag = history.flag_after_failure()
    site.tell(events.GraphBroke, kind=kind, detail=signal.detail, user_stack=signal.user_stack, location=location)
    if key.fullgraph and kind is not gb.EXCEPTION_ESCAPES:
        source_line = f"\n    {location.text.strip()}" if location.text else ""
        message = (
            f"{kind.gw_id} {kind.title} in {location.filename}:{location.line} ({location.function}): {signal.detail}"
            f"{source_line}\n  {kind.explanation}\n  What to do: {kind.remedy}"
        )
        if kind is gb.TORCH_OP_FAILED:
            raise TorchRuntimeError(message) from _torch_error(signal)
        raise Unsupported(
            message, gw_id=kind.gw_id, reason=signal.detail, location=str(location), remedy=kind.remedy
        ) from None
    reason = f"{kind.gw_id} {kind.title}: {signal.detail}"
    site.tell(events.FrameSkipped, function=site.function, reason=reason, remedy=kind.remedy, location=location)
    return flag


def _torch_error(signal: GraphBreak) -> BaseException | None:
    """What the operation raised: the failure on fake tensors, which the signal came of, names it as its cause."""
    error: BaseException | None = signal
    while error is not None and error.__cause__ is None:
        error = error.__context__
    return None if error is None else error.__cause__


def too_deep(site: events.CaptureSite, history: CodeHistory) -> int | None:
    """The stack, or the values that the frame works on, are nested too deep for capture, which needs more of it."""
    reason = "the recursion limit was reached while it was captured"
    remedy = "Raise it: sys.setrecursionlimit()."
    site.tell(events.FrameSkipped, function=site.function, reason=reason, remedy=remedy)
    return history.flag_after_failure()


def internal_error(error: BaseException, site: events.CaptureSite, key: CacheKey, history: CodeHistory) -> int | None:
    """Capture met a bug of its own, which must not change what the program does.

    Raises:
        InternalError: errors of capture are to be raised (`raise_internal_errors`).
    """
    flag = history.flag_after_failure()
    site.tell(events.InternalErrorCaught, function=site.function, error=error)
    if key.settings.raise_internal_errors:
        if isinstance(error, InternalError):
            raise error
        raise InternalError(f"capturing {site.function} ({site.location}) failed: {error!r}") from error
    return flag
