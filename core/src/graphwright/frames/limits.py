"""Whether a call that no entry fits may have another: why the entries do not fit, and how many there may be."""

from __future__ import annotations

from types import CodeType, FunctionType

import graphwright._native as _native
import graphwright.events as events
from graphwright.cache_key import CacheKey
from graphwright.codegen import argument_slots
from graphwright.exc import InternalError, RecompileLimitExceeded
from graphwright.frames.history import CodeHistory
from graphwright.guards.advice import OBJECTS_GONE, ShapeRules, advised
from graphwright.guards.failure import GuardFailure, Recompile
from graphwright.guards.in_words import FrameNames, Miss, in_words
from graphwright.resume import RESUME_FUNCTIONS

_MAX_TOLD = 32
"""Of how many entries a recompile tells why they did not fit, the latest: the limit counts for each object apart."""


def check_limits(
    site: events.CaptureSite, function: FunctionType, args: tuple[object, ...], key: CacheKey, history: CodeHistory
) -> int | None:
    """Report why the entries that there are did not fit a call.

    Returns:
        None where another may be made; else what to mark the code with: RUN_ONLY where there are as many as there may
        be.

    Raises:
        RecompileLimitExceeded: that is to be an error.
    """
    code = function.__code__
    entries = _native.entries(code, key)
    if not entries:
        spent = history.captures >= key.settings.accumulated_recompile_limit
        return _refuse(site, key, "accumulated_recompile_limit", OBJECTS_GONE) if spent else None
    misses = [entry.tree.why_not(args, function) for entry in entries[:_MAX_TOLD]]
    failures = _failures(misses, code, key, history)
    reasons = tuple(map(str, failures))
    # A float is a symbol there at once; where the program, or the backend, fixes it all the same, that is it.
    if code in RESUME_FUNCTIONS and all(map(_is_another_float, misses)):
        reason = f"a number known only at run time differs from call to call: {reasons[0]}"
        site.tell(events.FrameSkipped, function=site.function, reason=reason)
        return 0  # this call runs in eager; another may fit, or be captured
    site.tell(events.Recompiled, function=site.function, reasons=reasons, failures=failures)
    limit = _limit_reached(entries, function, args, key, history)
    history.recompiles.append(
        Recompile(site.function, site.location, key.backend_name, failures, captured=limit is None)
    )
    return None if limit is None else _refuse(site, key, limit, failures[0])


def _failures(
    misses: list[Miss | None], code: CodeType, key: CacheKey, history: CodeHistory
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
    history: CodeHistory,
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


def _refuse(site: events.CaptureSite, key: CacheKey, name: str, failure: GuardFailure) -> int:
    """Have the code run what is cached, and no more; `name` is the setting that was reached."""
    limit = getattr(key.settings, name)
    if key.fullgraph or key.settings.fail_on_recompile_limit_hit:
        remedy = f"{failure.advice or 'make the value that changes a tensor'}; or raise graphwright.config.{name}"
        raise RecompileLimitExceeded(
            f"{site.function} ({site.location}) was compiled {limit} times, the {name}; the last time because "
            f"{failure}. What to do: {remedy}.",
            gw_id="GW0000",
            reason=str(failure),
            location=str(site.location),
            remedy=remedy,
        )
    site.tell(
        events.CacheLimitHit,
        function=site.function,
        limit=limit,
        reason=str(failure),
        remedy=failure.advice,
        setting=name,
    )
    return _native.RUN_ONLY


def _is_another_float(miss: Miss | None) -> bool:
    """Whether all that keeps an entry from fitting is the value of a float, which may be a new one each time."""
    return miss is not None and miss[1][0] == "eq" and type(miss[1][1]) is float
