"""One frame in, guarded replacement code out."""

from __future__ import annotations

import itertools
import sys
import time
from types import CellType, CodeType, FunctionType

import graphwright._native as _native
import graphwright.events as events
from graphwright.cache_key import CacheKey
from graphwright.exc import CodeLocation, GraphBreak, GraphwrightError, InternalError, drop_tracebacks
from graphwright.frame_filter import EXPECTED_CODE, is_worth_capturing, may_see_tensors, why_never_captured
from graphwright.frames.compiler import FrameCompiler
from graphwright.frames.failure import internal_error, left_to_interpreter, too_deep
from graphwright.frames.history import CodeHistory, history_of, history_of_all
from graphwright.frames.limits import check_limits
from graphwright.line_cache import own_line_cache
from graphwright.markers import advised_by
from graphwright.resume import RESUME_FUNCTIONS
from graphwright.stance import allows_capture
from graphwright.torch_compat import why_operations_are_intercepted
from graphwright_plugins import HookError

_MAX_EMPTY_CAPTURES = 8
"""After so many captures in a row without an operation, where no tensor is in sight, the interpreter takes over.

A function is counted together with its resume functions: making one for each of many breaks costs what grows with
the square of their number.
"""

_numbers = itertools.count()


def convert_frame(function: FunctionType, args: tuple[object, ...], key: CacheKey) -> _native.Entry | int | None:
    """Make the cache entry of a frame that no entry fits.

    Args:
        args: the values of the argument slots, in the order of `co_varnames`.

    Returns:
        The entry; or a flag of `_native` to mark the code with; or None to run this one call in eager.

    Raises:
        Unsupported: under `fullgraph=True`, where the frame cannot be captured whole.
        BackendCompilerFailed: the backend raised.
    """
    if sys.is_finalizing():  # nothing can be imported any more, and the backend may be gone
        return None
    with advised_by(key.backend):
        return _convert(function, args, key)


def _convert(function: FunctionType, args: tuple[object, ...], key: CacheKey) -> _native.Entry | int | None:
    code = function.__code__
    if any(type(a) is CellType for a in args) and code not in RESUME_FUNCTIONS:
        return None  # a cell among the variables of a frame would be taken for that of a variable
    reason = why_never_captured(function)
    if reason is not None:
        if code in EXPECTED_CODE:
            site = _site_of(code)
            site.tell(events.FrameSkipped, function=site.function, reason=str(reason))
        return _native.SKIP
    if not is_worth_capturing(function, args):
        return None
    site, history = _site_of(code), history_of(code, key)
    intercepted = why_operations_are_intercepted()
    if intercepted is not None:
        site.tell(events.FrameSkipped, function=site.function, reason=intercepted)
        return None
    over_limit = check_limits(site, function, args, key, history)
    if over_limit is not None:
        return over_limit
    if not allows_capture(site.function, history.latest_reason()):
        return None
    if _is_in_vain(function, args, key):
        reason = f"{_MAX_EMPTY_CAPTURES} captures found no operation on tensors, and none is in sight"
        site.tell(events.FrameSkipped, function=site.function, reason=reason)
        return history.flag_after_failure()
    return _capture(function, args, key, history)


def _capture(
    function: FunctionType, args: tuple[object, ...], key: CacheKey, history: CodeHistory
) -> _native.Entry | int | None:
    code = function.__code__
    history.captures += 1
    site = _site_of(code, str(next(_numbers)))
    site.tell(events.FrameStarted, function=site.function)
    started = time.perf_counter()
    outcome = "failed"
    compiler = FrameCompiler(function, args, key, site, convert_frame, history.seen)
    try:
        with own_line_cache():
            entry = compiler.compile()
        outcome = "compiled"
        history.fixed.update(compiler.fixed)
        history.reports.extend(compiler.reports)
        of_all = history_of_all(code, key)
        of_all.empty = of_all.empty + 1 if compiler.is_empty else 0
        return entry
    except GraphBreak as signal:
        outcome = "skipped"
        flag = left_to_interpreter(signal, site, key, history)
        drop_tracebacks(signal)
        return flag
    except (GraphwrightError, RecursionError) as error:
        if isinstance(error, RecursionError) and not key.settings.raise_internal_errors:
            return too_deep(site, history)
        if isinstance(error, (InternalError, RecursionError)):
            return internal_error(error, site, key, history)
        raise
    except HookError:  # a plugin's transform failed: no bug of ours, and no reason to run without it
        raise
    except Exception as error:  # noqa: BLE001  border: our bugs must not change what the program does
        return internal_error(error, site, key, history)
    finally:
        compiler.release()
        seconds = time.perf_counter() - started
        site.tell(events.FrameFinished, function=site.function, outcome=outcome, seconds=seconds)


def _is_in_vain(function: FunctionType, args: tuple[object, ...], key: CacheKey) -> bool:
    """Whether to capture a frame that nobody asked for, or more of one, would find nothing again."""
    code = function.__code__
    if code in EXPECTED_CODE and code not in RESUME_FUNCTIONS:
        return False
    return history_of_all(code, key).empty >= _MAX_EMPTY_CAPTURES and not may_see_tensors(function, args)


def _site_of(code: CodeType, compile_id: str = "") -> events.CaptureSite:
    location = CodeLocation(code.co_filename, code.co_firstlineno, code.co_qualname)
    return events.CaptureSite(RESUME_FUNCTIONS.name_of(code), location, compile_id)
