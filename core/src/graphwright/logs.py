"""Prints events: what `GRAPHWRIGHT_LOGS` asks for to stderr, and what everybody should know through `logging`.

`GRAPHWRIGHT_LOGS` (or `graphwright.config.logs`) is a comma-separated list of names from `LOGS`. `+name` prints more of
it, `-name` takes it out again, `all` means every log but `trace_bytecode`.

Without that, the logger `graphwright` gets, once for each place in the user's code and each error:

* WARNING: recompile limits, internal errors, graphs that raise, that a backend leaves to eager or fails on,
  mechanisms that do not work here. Python shows these by default.
* INFO: graph breaks and skipped frames. They are normal, so one has to ask for them.
"""

from __future__ import annotations

import difflib
import dis
import io
import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import graphwright.config as config
import graphwright.events as events
from graphwright.events import Event
from graphwright.exc import CompileValueError
from graphwright.settings import Settings

_logger = logging.getLogger("graphwright")


class UnknownLog(CompileValueError):
    """No log has this name."""


# ------------------------------------------------------------------ what each log prints


def _graph_break(event: events.GraphBroke, verbose: bool) -> str:
    text = f"{event.gw_id} graph break in {event.location}: {event.reason}\n  remedy: {event.remedy}"
    if line := events.source_line(event.location):
        text = text.replace("\n", f"\n    {line}\n", 1)
    if verbose:
        text += f"\n  {event.kind.explanation}"
        text += "".join(f"\n  at {line}" for line in events.shown_stack(event.user_stack))
    return text


def _skip(event: events.FrameSkipped, verbose: bool) -> str:
    remedy = f"\n  remedy: {event.remedy}" if event.remedy else ""
    return f"{event.function} ({event.location}) runs in eager: {event.reason}{remedy}"


def _recompile(event: events.Recompiled, verbose: bool) -> str:
    text = f"recompiling {event.function} ({event.location}), as no entry fits (latest first):"
    text += "".join(f"\n  - {reason}" for reason in event.reasons)
    return text + (f"\n  What to do: {event.remedy}" if event.remedy else "")


def _limit(event: events.CacheLimitHit, verbose: bool) -> str:
    return (
        f"{event.function} ({event.location}) reached {event.setting} ({event.limit}); calls that fit no entry run in "
        f"eager from now on. Last reason: {event.reason}. What to do: "
        f"{event.remedy or 'make what changes a tensor'}; or raise graphwright.config.{event.setting} and call "
        "graphwright.reset()."
    )


def _guards(event: events.GuardsBuilt, verbose: bool) -> str:
    return f"{len(event.guards)} guards of {event.function}" + "".join(f"\n  {guard}" for guard in event.guards)


def _disassembly(code: Any) -> str:
    text = io.StringIO()
    dis.dis(code, file=text, depth=0)
    return text.getvalue()


def _bytecode(event: events.Bytecode, verbose: bool) -> str:
    return (
        f"bytecode of {event.function} ({event.location})\noriginal:\n{_disassembly(event.original)}"
        f"replacement:\n{_disassembly(event.replacement)}"
    )


def _instruction(event: events.InstructionTraced, verbose: bool) -> str:
    stack = f" [{', '.join(event.stack)}]" if verbose else ""
    return f"{event.location}: {event.instruction}{stack}"


def _graph(event: events.GraphCaptured, verbose: bool) -> str:
    return (
        f"{event.name} ({event.op_count} ops, {event.input_count} inputs, {event.location})\n{event.graph_module.graph}"
    )


def _graph_code(event: events.GraphCaptured, verbose: bool) -> str:
    return f"{event.name} ({event.location})\n{event.code}"


def _dynamic(event: events.DimensionMadeDynamic | events.DimensionFixed, verbose: bool) -> str:
    if isinstance(event, events.DimensionFixed):
        return f"{event.source} is fixed to {event.value}, which the program asks for\n{event.asked_at.rstrip()}"
    return f"{event.source} is symbolic as {event.symbol}: {event.why}"


def _artifact(event: events.BackendArtifact, verbose: bool) -> str:
    return f"{event.name}\n{event.text}"


def _internal_error(event: events.InternalErrorCaught, verbose: bool) -> str:
    return (
        f"a bug of Graphwright's, met while capturing {event.function} ({event.location}), which runs in eager: "
        f"{type(event.error).__name__}: {event.error}\n  Set GRAPHWRIGHT_RAISE_INTERNAL_ERRORS=1 to see where."
    )


def _graph_failed(event: events.GraphFailed, verbose: bool) -> str:
    text = f"{event.graph_name} of {event.function} ({event.location}), by backend {event.backend}, raised "
    text += f"{type(event.error).__name__}: {event.error}"
    if event.runs_in_eager:
        text += "\n  The call runs in eager, from its start; if that does not raise, the backend is at fault."
    if event.is_asked_for:
        text += (
            "\n  It goes to the caller, as on_backend_error='raise' asks; what the function would have done to Python "
            "objects after its graph is lost. With 'fallback', calls like this one run in eager where they can."
        )
    elif event.loses_effects:
        text += (
            "\n  The graph writes to its inputs or does what cannot be repeated, so the call can't start again in "
            "eager; what the function did to Python objects before is lost."
        )
    return text + ("\n" + "".join(traceback.format_exception(event.error)).rstrip() if verbose else "")


def _left_to_eager(event: events.GraphLeftToEager, verbose: bool) -> str:
    return (
        f"{event.graph_name} ({event.location}) runs in eager, as it was captured: backend {event.backend} left it, "
        f"since {event.error}"
    )


def _fell_back(event: events.BackendFellBack, verbose: bool) -> str:
    meaning = {
        "unsupported": "the backend does not support it",
        "resource": "it ran out of something, or met a failure that may pass",
        "bug": "a bug of the backend's, to be reported to its authors",
    }
    owner = f" ({event.distribution} {event.version})".replace(" )", ")") if event.distribution else ""
    what = event.graph_name if event.part is None else f"part {event.part} of {event.graph_name}"
    return (
        f"{what} ({event.location}) runs on {event.fallback!r}: backend {event.backend!r}{owner} failed to compile it, "
        f"{type(event.error).__name__}: {event.error} ({meaning[event.kind]})"
    )


def _partition(event: events.GraphPartitioned, verbose: bool) -> str:
    reasons = "".join(f"\n  {reason}" for reason in event.reasons)
    return (
        f"{event.graph_name} ({event.location}) runs in {event.parts} parts, {event.on_backend} of them on "
        f"{event.backend!r}, the others on {event.fallback!r}{reasons}"
    )


def _nothing_on_backend(event: events.NothingOnBackend, verbose: bool) -> str:
    reasons = event.reasons if verbose else event.reasons[:5]
    text = "".join(f"\n  {reason}" for reason in reasons)
    more = f"\n  and {len(event.reasons) - len(reasons)} more" if len(reasons) < len(event.reasons) else ""
    return (
        f"nothing of {event.graph_name} ({event.location}) runs on backend {event.backend!r}; all of it runs on "
        f"{event.fallback!r}:{text}{more}"
    )


_PARTITION_FORMATS: Mapping[type[Event], Callable[[Any, bool], str]] = {
    events.GraphPartitioned: _partition,
    events.NothingOnBackend: _nothing_on_backend,
}


def _backend(event: Event, verbose: bool) -> str:
    if isinstance(event, events.BackendUsed):
        return f"{event.graph_name} goes to backend {event.backend} {event.distribution} {event.version}".rstrip()
    if isinstance(event, events.BackendChosen):
        return f"backend {event.backend} is taken by default: {event.reason}"
    if isinstance(event, events.BackendFailed):
        return f"backend {event.backend} failed on {event.graph_name}: {type(event.error).__name__}"
    return str(event)


def _artifact_cache(event: events.ArtifactCacheUsed | events.ArtifactRejected, verbose: bool) -> str:
    if isinstance(event, events.ArtifactRejected):
        if not event.key:
            return f"graphs of backend {event.backend} are compiled, and neither looked up nor saved: {event.reason}"
        if event.saving:
            return f"a graph that backend {event.backend} compiled is not saved: {event.reason}"
        return f"a saved graph of backend {event.backend} is not used, so it is compiled: {event.reason}"
    what = f"{event.n_bytes} bytes in {event.seconds * 1e3:.1f} ms" if event.n_bytes else event.reason
    return f"{event.result.replace('_', ' ')} of backend {event.backend}: {what}" + (
        f"\n  key {event.key}" if verbose and event.key else ""
    )


def _frozen_weights(event: events.FrozenWeightsChanged, verbose: bool) -> str:
    shown = event.changed if verbose else event.changed[:3]
    more = len(event.changed) - len(shown)
    names = ", ".join(shown) + (f" and {more} more" if more else "")
    why = f": {event.reason}" if event.reason else ""
    return f"frozen weights of {event.function} {event.how} ({names}): {event.action}{why}"


def _timing(event: Event, verbose: bool) -> str:
    if isinstance(event, events.GraphCompiled):
        return f"{event.name}: {event.seconds * 1e3:.1f} ms in backend {event.backend}"
    if isinstance(event, events.FrameFinished):
        return f"{event.function} {event.outcome} after {event.seconds * 1e3:.1f} ms"
    return str(event)


def _mechanism(event: events.MechanismOff, verbose: bool) -> str:
    return f"{event.mechanism} is off: {event.reason}. {event.remedy}".rstrip()


@dataclass(frozen=True, slots=True)
class Log:
    """A log one can ask for."""

    kinds: tuple[type[Event], ...]
    """The events it prints."""
    format: Callable[[Any, bool], str]
    """The text of one, verbose or not."""
    about: str
    """What it shows."""


LOGS: Mapping[str, Log] = {
    "graph_breaks": Log((events.GraphBroke,), _graph_break, "where graphs end, why, and what to do"),
    "skips": Log((events.FrameSkipped,), _skip, "functions left to the interpreter as a whole"),
    "recompiles": Log((events.Recompiled, events.CacheLimitHit), lambda e, v: _RECOMPILE_FORMATS[type(e)](e, v),
                      "captures of what was captured before, and the guard that failed"),
    "guards": Log((events.GuardsBuilt,), _guards, "the conditions under which an entry holds"),
    "bytecode": Log((events.Bytecode,), _bytecode, "original and replacement code"),
    "trace_bytecode": Log((events.InstructionTraced,), _instruction, "every instruction translated"),
    "graph": Log((events.GraphCaptured,), _graph, "graphs, one node a line"),
    "graph_code": Log((events.GraphCaptured,), _graph_code, "graphs as Python"),
    "dynamic": Log((events.DimensionMadeDynamic, events.DimensionFixed), _dynamic,
                   "sizes and numbers that became symbolic"),
    "aot_graphs": Log((events.BackendArtifact,), _artifact, "forward and backward graphs of AOTAutograd"),
    "output_code": Log((events.BackendArtifact,), _artifact, "source that backends generated"),
    "backends": Log((events.BackendUsed, events.BackendChosen, events.BackendFailed), _backend, "who compiles what"),
    "artifact_cache": Log((events.ArtifactCacheUsed, events.ArtifactRejected), _artifact_cache,
                          "graphs loaded that another process compiled, and why others were not"),
    "frozen_weights": Log(
        (events.FrozenWeightsChanged,), _frozen_weights, "weights held as constants that changed, and what was done"
    ),
    "compile_times": Log((events.GraphCompiled, events.FrameFinished), _timing, "how long captures and backends take"),
    "graph_failures": Log((events.GraphFailed,), _graph_failed, "compiled graphs that raised when called"),
    "fallbacks": Log((events.BackendFellBack,), _fell_back, "graphs that a backend failed on and another runs"),
    "partitions": Log((events.GraphPartitioned, events.NothingOnBackend),
                      lambda e, v: _PARTITION_FORMATS[type(e)](e, v),
                      "graphs that a backend does in part, and why not all"),
    "left_to_eager": Log((events.GraphLeftToEager,), _left_to_eager, "graphs that backends left to eager, and why"),
    "internal_errors": Log((events.InternalErrorCaught,), _internal_error, "bugs of Graphwright's own"),
    "mechanisms": Log((events.MechanismOff,), _mechanism, "what does not work on this machine"),
}  # fmt: skip
"""Every log, by name."""

_RECOMPILE_FORMATS: Mapping[type[Event], Callable[[Any, bool], str]] = {
    events.Recompiled: _recompile,
    events.CacheLimitHit: _limit,
}
_NOT_IN_ALL = "trace_bytecode"


def parse_logs(text: str) -> dict[str, bool]:
    """The logs that a text asks for, each with whether it is to be verbose.

    Raises:
        UnknownLog: A name is not in `LOGS`; the message suggests the nearest.
    """
    chosen: dict[str, bool] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        sign, name = (item[0], item[1:].strip()) if item[0] in "+-" else ("", item)
        if name != "all" and name not in LOGS:
            near = difflib.get_close_matches(name, [*LOGS, "all"], n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise UnknownLog(
                f"GRAPHWRIGHT_LOGS: no log is called {name!r}.{hint} Logs are: {', '.join(sorted(LOGS))}, all."
            )
        names = [each for each in LOGS if each != _NOT_IN_ALL] if name == "all" else [name]
        for each in names:
            if sign == "-":
                chosen.pop(each, None)
            else:
                chosen[each] = sign == "+"
    return chosen


# ------------------------------------------------------------------ the two subscribers


class _Printer:
    """Prints the logs that were asked for to stderr."""

    def __init__(self) -> None:
        self._chosen: dict[str, bool] = {}

    def configure(self, settings: Settings) -> None:
        """Follow the settings."""
        chosen = parse_logs(settings.logs)
        events.unsubscribe(self.print)
        self._chosen = chosen
        if chosen:
            kinds = {kind for name in chosen for kind in LOGS[name].kinds}
            events.subscribe(self.print, *kinds)

    def print(self, event: Event) -> None:
        """Print an event to every log it belongs to."""
        for name, verbose in self._chosen.items():
            log = LOGS[name]
            if isinstance(event, log.kinds) and (not isinstance(event, events.BackendArtifact) or event.kind == name):
                compile_id = f" {event.compile_id}" if event.compile_id else ""
                sys.stderr.write(f"[graphwright {name}{compile_id}] {log.format(event, verbose)}\n")


class _Reporter:
    """Tells the logger what happened, once a place."""

    def __init__(self) -> None:
        self.reported: set[tuple[object, ...]] = set()

    def report(self, event: Event) -> None:
        """Log an event that everybody may want to know of."""
        level, text = self._LEVELS[type(event)]
        names = ("gw_id", "mechanism", "key", "backend")
        what = next(filter(None, (getattr(event, name, None) for name in names)), None)
        place = (type(event), str(event.location), what, str(getattr(event, "error", "")))
        if _logger.isEnabledFor(level) and place not in self.reported:
            self.reported.add(place)
            _logger.log(level, "%s", text(event, False))

    _LEVELS: Mapping[type[Event], tuple[int, Callable[[Any, bool], str]]] = {
        events.GraphBroke: (logging.INFO, _graph_break),
        events.FrameSkipped: (logging.INFO, _skip),
        events.BackendChosen: (logging.INFO, _backend),
        events.GraphPartitioned: (logging.INFO, _partition),
        events.NothingOnBackend: (logging.WARNING, _nothing_on_backend),
        events.BackendFellBack: (logging.WARNING, _fell_back),
        events.CacheLimitHit: (logging.WARNING, _limit),
        events.InternalErrorCaught: (logging.WARNING, _internal_error),
        events.GraphFailed: (logging.WARNING, _graph_failed),
        events.GraphLeftToEager: (logging.WARNING, _left_to_eager),
        events.MechanismOff: (logging.WARNING, _mechanism),
        events.ArtifactRejected: (logging.WARNING, _artifact_cache),
    }


_printer = _Printer()
_reporter = _Reporter()


def install() -> None:
    """Start to follow the event stream and the settings; once, when Graphwright is imported."""
    events.subscribe(_reporter.report, *_Reporter._LEVELS)
    config.on_change(_printer.configure)


def forget_reported() -> None:
    """Report every place anew."""
    _reporter.reported.clear()
