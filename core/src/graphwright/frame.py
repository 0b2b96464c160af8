"""One frame in, guarded replacement code out."""

from __future__ import annotations

import itertools
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType

import graphwright._native as _native
import graphwright.events as events
import graphwright.graph_breaks as gb
from graphwright.cache_key import CacheKey
from graphwright.codegen import argument_slots
from graphwright.exc import (
    CodeLocation,
    GraphBreak,
    GraphwrightError,
    InternalError,
    RecompileLimitExceeded,
    TorchRuntimeError,
    Unsupported,
    drop_tracebacks,
)
from graphwright.frame_compiler import FrameCompiler
from graphwright.frame_filter import EXPECTED_CODE, is_worth_capturing, may_see_tensors, why_never_captured
from graphwright.guards.advice import OBJECTS_GONE, ShapeRules, advised
from graphwright.guards.failure import GuardFailure, Recompile
from graphwright.guards.in_words import FrameNames, Miss, in_words
from graphwright.line_cache import own_line_cache
from graphwright.markers import advised_by
from graphwright.resume import RESUME_FUNCTIONS
from graphwright.shapes.seen import SeenShapes
from graphwright.stance import allows_capture
from graphwright.torch_compat import why_operations_are_intercepted
from graphwright.weak_identity import WeakIdentityMap
from graphwright_plugins import GraphReport, HookError

_MAX_FAILED_CAPTURES = 4
"""After so many captures of one code object came to nothing, it is left to the interpreter for good."""

_MAX_EMPTY_CAPTURES = 8
"""After so many captures in a row without an operation, where no tensor is in sight, the interpreter takes over.

A function is counted together with its resume functions: making one for each of many breaks costs what grows with
the square of their number.
"""

_MAX_REMEMBERED = 32
"""How many recompiles and graphs of a code object are remembered, for `explain_recompiles` and `backend_report`."""

_MAX_TOLD = 32
"""Of how many entries a recompile tells why they did not fit, the latest: the limit counts for each object apart."""

_numbers = itertools.count()


@dataclass(slots=True)
class _CodeHistory:
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


class _Histories:
    """Histories by code object and key; those of dead ones go with them."""

    def __init__(self) -> None:
        self._by_code: WeakIdentityMap[CodeType, WeakIdentityMap[CacheKey, _CodeHistory]] = WeakIdentityMap()

    def of(self, code: CodeType, key: CacheKey) -> _CodeHistory:
        by_key = self._by_code.setdefault(code, WeakIdentityMap())
        return by_key.setdefault(key, _CodeHistory())

    def of_code(self, code: CodeType) -> list[tuple[CacheKey, _CodeHistory]]:
        by_key = self._by_code.get(code)
        return [] if by_key is None else by_key.items()

    def clear(self) -> None:
        self._by_code.clear()


_histories = _Histories()


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
    with advised_by(key.backend):
        return _convert(function, args, key)


def _convert(function: FunctionType, args: tuple[object, ...], key: CacheKey) -> _native.Entry | int | None:
    code = function.__code__
    if any(type(a) is CellType for a in args) and code not in RESUME_FUNCTIONS:
        return None  # a cell among the variables of a frame would be taken for that of a variable
    reason = why_never_captured(function)
    if reason is not None:
        if code in EXPECTED_CODE:
            events.emit(events.FrameSkipped(function=_name(code), reason=str(reason), location=_first_line(code)))
        return _native.SKIP
    if sys.is_finalizing() or not is_worth_capturing(function, args):  # nothing can be imported any more
        return None
    history = _histories.of(code, key)
    over_limit = _check_limits(code, function, args, key, history)
    if over_limit is not None:
        return over_limit
    if not allows_capture(_name(code), _latest_reason(history)):
        return None
    if _is_in_vain(function, args, key):
        reason = f"{_MAX_EMPTY_CAPTURES} captures found no operation on tensors, and none is in sight"
        events.emit(events.FrameSkipped(function=_name(code), reason=reason, location=_first_line(code)))
        history.failures += 1
        return _native.RUN_ONLY if history.failures >= _MAX_FAILED_CAPTURES else None
    intercepted = why_operations_are_intercepted()
    if intercepted is not None:
        events.emit(events.FrameSkipped(function=_name(code), reason=intercepted, location=_first_line(code)))
        return None
    return _capture(function, args, key, history)


def _capture(
    function: FunctionType, args: tuple[object, ...], key: CacheKey, history: _CodeHistory
) -> _native.Entry | int | None:
    code = function.__code__
    history.captures += 1
    compile_id = str(next(_numbers))
    events.emit(events.FrameStarted(function=_name(code), location=_first_line(code), compile_id=compile_id))
    started = time.perf_counter()
    outcome = "failed"
    compiler = FrameCompiler(function, args, key, compile_id, convert_frame, history.seen)
    try:
        with own_line_cache():
            entry = compiler.compile()
        outcome = "compiled"
        history.fixed.update(compiler.fixed)
        history.reports.extend(compiler.reports)
        of_all = _histories.of(RESUME_FUNCTIONS.original_of(code), key)
        of_all.empty = of_all.empty + 1 if compiler.is_empty else 0
        return entry
    except GraphBreak as signal:
        history.failures += 1
        outcome = "skipped"
        flag = _leave_to_interpreter(signal, code, key, history, compile_id)
        drop_tracebacks(signal)
        return flag
    except (GraphwrightError, RecursionError) as error:
        if isinstance(error, RecursionError) and not key.settings.raise_internal_errors:
            return _too_deep(code, history, compile_id)
        if isinstance(error, (InternalError, RecursionError)):
            return _internal_error(error, code, key, history, compile_id)
        raise
    except HookError:  # a plugin's transform failed: no bug of ours, and no reason to run without it
        raise
    except Exception as error:  # noqa: BLE001  border: our bugs must not change what the program does
        return _internal_error(error, code, key, history, compile_id)
    finally:
        compiler.release()
        seconds = time.perf_counter() - started
        events.emit(events.FrameFinished(function=_name(code), outcome=outcome, seconds=seconds, compile_id=compile_id))


def _is_in_vain(function: FunctionType, args: tuple[object, ...], key: CacheKey) -> bool:
    """Whether to capture a frame that nobody asked for, or more of one, would find nothing again."""
    code = function.__code__
    if code in EXPECTED_CODE and code not in RESUME_FUNCTIONS:
        return False
    history = _histories.of(RESUME_FUNCTIONS.original_of(code), key)
    return history.empty >= _MAX_EMPTY_CAPTURES and not may_see_tensors(function, args)


def _too_deep(code: CodeType, history: _CodeHistory, compile_id: str) -> int | None:
    """The stack, or the values that the frame works on, are nested too deep for capture, which needs more of it."""
    history.failures += 1
    reason = "the recursion limit was reached while it was captured"
    remedy = "Raise it: sys.setrecursionlimit()."
    events.emit(
        events.FrameSkipped(
            function=_name(code), reason=reason, remedy=remedy, location=_first_line(code), compile_id=compile_id
        )
    )
    return _native.RUN_ONLY if history.failures >= _MAX_FAILED_CAPTURES else None


def _name(code: CodeType) -> str:
    return RESUME_FUNCTIONS.name_of(code)


def _first_line(code: CodeType) -> CodeLocation:
    return CodeLocation(code.co_filename, code.co_firstlineno, code.co_qualname)


def _check_limits(
    code: CodeType, function: FunctionType, args: tuple[object, ...], key: CacheKey, history: _CodeHistory
) -> int | None:
    """Report why entries did not fit; RUN_ONLY where there are as many as there may be."""
    entries = _native.entries(code, key)
    if not entries:
        spent = history.captures >= key.settings.accumulated_recompile_limit
        return _refuse(code, key, "accumulated_recompile_limit", OBJECTS_GONE) if spent else None
    misses = [entry.tree.why_not(args, function) for entry in entries[:_MAX_TOLD]]
    failures = _failures(misses, code, key, history)
    reasons = tuple(map(str, failures))
    location = _first_line(code)
    # A float is a symbol there at once; where the program, or the backend, fixes it all the same, that is it.
    if code in RESUME_FUNCTIONS and all(map(_is_another_float, misses)):
        reason = f"a number known only at run time differs from call to call: {reasons[0]}"
        events.emit(events.FrameSkipped(function=_name(code), reason=reason, location=location))
        return 0  # this call runs in eager; another may fit, or be captured
    events.emit(events.Recompiled(function=_name(code), reasons=reasons, failures=failures, location=location))
    limit = _limit_reached(entries, function, args, key, history)
    backend = key.backend_name
    history.recompiles.append(Recompile(_name(code), location, backend, failures, captured=limit is None))
    return None if limit is None else _refuse(code, key, limit, failures[0])


def _latest_reason(history: _CodeHistory) -> str:
    latest = history.recompiles.copy()
    return str(latest[-1].failures[0]) if latest else ""


def _failures(
    misses: list[Miss | None], code: CodeType, key: CacheKey, history: _CodeHistory
) -> tuple[GuardFailure, ...]:
    names = FrameNames(argument_slots(code), code.co_freevars)
    automatic = key.settings.automatic_dynamic_shapes
    rules = ShapeRules(key.dynamic, automatic, history.fixed, floats_vary=not history.seen.floats_are_fixed)
    return tuple(_told(miss, names, rules, key) for miss in misses)


def _told(miss: Miss | None, names: FrameNames, rules: ShapeRules, key: CacheKey) -> GuardFailure:
    if miss is None:  # another thread changed something meanwhile
        return GuardFailure("nothing", "", "its guards hold")
    try:
        return advised(in_words(miss, names), rules)
    except Exception as error:  # border: a report that fails must not change what the program does
        if key.settings.raise_internal_errors:
            raise InternalError(f"a failed guard cannot be told: {error!r}") from error
        return GuardFailure("unknown", "", f"a guard failed that cannot be told: {type(error).__name__}")


def _limit_reached(
    entries: list[_native.Entry],
    function: FunctionType,
    args: tuple[object, ...],
    key: CacheKey,
    history: _CodeHistory,
) -> str | None:
    """The setting that forbids another capture.

    Entries of another function, class or module that shares the code (wrappers, base classes) do not count.
    """
    settings = key.settings
    if len(entries) >= settings.recompile_limit:
        of_this_object = sum(entry.tree.identities_hold(args, function) for entry in entries)
        if of_this_object >= settings.recompile_limit:
            return "recompile_limit"
    return "accumulated_recompile_limit" if history.captures >= settings.accumulated_recompile_limit else None


def _refuse(code: CodeType, key: CacheKey, name: str, failure: GuardFailure) -> int:
    """Have the code run what is cached, and no more.

    Raises:
        RecompileLimitExceeded: that is to be an error.
    """
    limit = getattr(key.settings, name)
    location = _first_line(code)
    if key.fullgraph or key.settings.fail_on_recompile_limit_hit:
        remedy = f"{failure.advice or 'make the value that changes a tensor'}; or raise graphwright.config.{name}"
        raise RecompileLimitExceeded(
            f"{_name(code)} ({location}) was compiled {limit} times, the {name}; the last time because "
            f"{failure}. What to do: {remedy}.",
            gw_id="GW0000",
            reason=str(failure),
            location=str(location),
            remedy=remedy,
        )
    events.emit(
        events.CacheLimitHit(
            function=_name(code),
            limit=limit,
            reason=str(failure),
            remedy=failure.advice,
            setting=name,
            location=location,
        )
    )
    return _native.RUN_ONLY


def _is_another_float(miss: Miss | None) -> bool:
    """Whether all that keeps an entry from fitting is the value of a float, which may be a new one each time."""
    return miss is not None and miss[1][0] == "eq" and type(miss[1][1]) is float


def _leave_to_interpreter(
    signal: GraphBreak, code: CodeType, key: CacheKey, history: _CodeHistory, compile_id: str
) -> int | None:
    kind = signal.kind
    location = signal.location or _first_line(code)
    events.emit(
        events.GraphBroke(
            kind=kind, detail=signal.detail, user_stack=signal.user_stack, location=location, compile_id=compile_id
        )
    )
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
    events.emit(
        events.FrameSkipped(
            function=_name(code), reason=reason, remedy=kind.remedy, location=location, compile_id=compile_id
        )
    )
    if history.failures >= _MAX_FAILED_CAPTURES:
        return _native.RUN_ONLY
    return None


def _torch_error(signal: GraphBreak) -> BaseException | None:
    """What the operation raised: the failure on fake tensors, which the signal came of, names it as its cause."""
    error: BaseException | None = signal
    while error is not None and error.__cause__ is None:
        error = error.__context__
    return None if error is None else error.__cause__


def _internal_error(
    error: BaseException, code: CodeType, key: CacheKey, history: _CodeHistory, compile_id: str
) -> int | None:
    history.failures += 1
    events.emit(
        events.InternalErrorCaught(function=_name(code), error=error, location=_first_line(code), compile_id=compile_id)
    )
    if key.settings.raise_internal_errors:
        if isinstance(error, InternalError):
            raise error
        raise InternalError(f"capturing {_name(code)} ({_first_line(code)}) failed: {error!r}") from error
    return _native.RUN_ONLY if history.failures >= _MAX_FAILED_CAPTURES else None
