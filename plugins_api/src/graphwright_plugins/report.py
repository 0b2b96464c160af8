"""What became of one graph at its backend: parts, reasons, failures, times, as data and as text.

Whoever compiles through a `ResolvedBackend` gets the report by `collecting`; a backend adds to it by `timed_stage` and
`show_artifact`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from graphwright_plugins.store.outcomes import CacheOutcome, listen_to_cache

from .errors import BackendResourceError, DeclarationError, UnsupportedGraph
from .shown_artifacts import listen_to_artifacts
from .supports import Refusal

Outcome: TypeAlias = Literal["backend", "parts", "fallback", "eager", "failed"]
"""Who runs a graph: the backend, the backend and the fallback in parts, the fallback, the graph itself; or nobody."""

FailureKind: TypeAlias = Literal["unsupported", "resource", "bug"]
"""Whether a backend refused a graph, ran out of something, or is wrong."""


@dataclass(frozen=True)
class BackendFailure:
    """What a backend raised, where something else runs in its place."""

    kind: FailureKind
    """What it means."""
    error_type: str
    """The class of what was raised."""
    message: str
    """Its message."""
    fallback: str
    """What runs in the backend's place."""
    part: int | None = None
    """Which part of the graph it was for; None for the whole."""

    def __str__(self) -> str:
        where = "" if self.part is None else f"part {self.part}: "
        meaning = {
            "unsupported": "not supported",
            "resource": "out of a resource, or a failure that may pass",
            "bug": "a bug of the backend's",
        }
        text = f"{self.error_type}: {self.message}"
        return f"{where}{self.fallback!r} runs in its place, since it raised {text} ({meaning[self.kind]})"


@dataclass(frozen=True)
class PartReport:
    """One part of a graph."""

    backend: str
    """Who runs it."""
    nodes: tuple[str, ...]
    """Its nodes, by name."""
    ops: tuple[str, ...]
    """What they call."""
    seconds: float
    """Time spent compiling it."""


@dataclass(frozen=True)
class GraphReport:
    """What became of one graph."""

    graph: str
    """The graph's name; empty where it was given none."""
    backend: str
    """The backend's name."""
    distribution: str = ""
    """The distribution it comes from."""
    version: str = ""
    """That distribution's version."""
    options: str = ""
    """The options it was given."""
    outcome: Outcome = "backend"
    """Who runs the graph."""
    fallback: str = ""
    """The fallback backend's name; empty where none was needed."""
    parts: tuple[PartReport, ...] = ()
    """The parts in the order in which they run; empty where the graph was not cut."""
    refusals: tuple[Refusal, ...] = ()
    """The nodes that the backend does not run, and why."""
    failures: tuple[BackendFailure, ...] = ()
    """What the backend raised, where something else runs in its place."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Time spent: `"total"`, and each stage the backend told of."""
    cache: tuple[CacheOutcome, ...] = ()
    """What became of looks into the artifact store; empty where the backend has nothing to do with it."""
    artifacts: tuple[tuple[str, str], ...] = ()
    """Kind and name of what the backend showed; the texts are in the event `BackendArtifact` and the logs."""

    def __str__(self) -> str:
        owner = f" ({self.distribution} {self.version})".replace(" )", ")") if self.distribution else ""
        lines = [f"{self.graph or 'graph'}: backend {self.backend!r}{owner}, {self._outcome()}"]
        if self.options:
            lines.append(f"  options: {self.options}")
        times = ", ".join(f"{stage} {seconds * 1e3:.1f} ms" for stage, seconds in self.seconds.items())
        lines += [f"  time: {times}"] if times else []
        lines += [f"  artifact store: {look.result}{look.reason and ', '}{look.reason}" for look in self.cache]
        for number, part in enumerate(self.parts):
            lines.append(
                f"  part {number} on {part.backend!r}, {part.seconds * 1e3:.1f} ms: {', '.join(part.ops) or 'no calls'}"
            )
        lines += [f"  failed: {failure}" for failure in self.failures]
        lines += ["  not on the backend:", *(f"    {entry}" for entry in self.refusals)] if self.refusals else []
        lines += [f"  {kind}: {name}" for kind, name in self.artifacts]
        return "\n".join(lines)

    def _outcome(self) -> str:
        if self.outcome == "parts":
            mine = sum(part.backend == self.backend for part in self.parts)
            return f"{mine} of {len(self.parts)} parts; the others run on {self.fallback!r}"
        return {
            "backend": "the whole graph",
            "fallback": f"nothing of it: all of it runs on {self.fallback!r}",
            "eager": "left to eager",
            "failed": "failed",
        }[self.outcome]


class GraphPlace(NamedTuple):
    """Where in the program a graph comes from."""

    function: str
    """The captured function."""
    filename: str
    """Its file."""
    lineno: int
    """Its first line."""

    def __str__(self) -> str:
        return f"{self.function} ({self.filename}:{self.lineno})"


class ReportBuilder:
    """A report that is being made."""

    def __init__(self, graph: str = "") -> None:
        self.graph = graph
        self.place: GraphPlace | None = None
        """Where in the program the graph is; None where nobody knows."""
        self.outcome: Outcome = "backend"
        self.fallback = ""
        self.parts: list[PartReport] = []
        self.refusals: list[Refusal] = []
        self.failures: list[BackendFailure] = []
        self.errors: list[Exception] = []
        """What was raised, for each failure. The report holds none: their tracebacks hold tensors."""
        self.seconds: dict[str, float] = {}
        self.cache: list[CacheOutcome] = []
        self.artifacts: list[tuple[str, str]] = []
        self.owner: tuple[str, str, str, str] = ("", "", "", "")
        """Name, distribution, version and options of the backend."""

    def fail(self, error: Exception, fallback: str, part: int | None) -> None:
        """Note that something else runs in the backend's place, since it raised."""
        self.failures.append(BackendFailure(kind_of(error), type(error).__name__, str(error), fallback, part))
        self.errors.append(error)

    def report(self) -> GraphReport:
        """The report as it is now."""
        return GraphReport(
            self.graph,
            *self.owner,
            self.outcome,
            self.fallback,
            tuple(self.parts),
            tuple(self.refusals),
            tuple(self.failures),
            dict(self.seconds),
            tuple(self.cache),
            tuple(self.artifacts),
        )


class Collector:
    """The reports of what was compiled while it was open."""

    def __init__(self, graph: str) -> None:
        self.graph = graph
        self.builders: list[ReportBuilder] = []

    def begin(self) -> ReportBuilder:
        """A new report; those after the first are numbered."""
        name = self.graph if not self.builders else f"{self.graph}, compilation {len(self.builders) + 1}"
        self.builders.append(ReportBuilder(name))
        return self.builders[-1]

    @property
    def reports(self) -> tuple[GraphReport, ...]:
        """The reports, in order: several where a backend gets its graphs in another form than they were captured in."""
        return tuple(builder.report() for builder in self.builders)


ReportListener: TypeAlias = Callable[[ReportBuilder], None]
"""Called with a finished report that nobody collects, such as that of a backward graph."""

_current: ContextVar[ReportBuilder | None] = ContextVar("graphwright_report", default=None)
_collector: ContextVar[Collector | None] = ContextVar("graphwright_report_collector", default=None)
_listeners: list[ReportListener] = []  # filled by the framework when it is imported


def listen_to_reports(listener: ReportListener) -> None:
    """Have a function called with every report that nobody collects. Adding a listener again changes nothing."""
    if listener not in _listeners:
        _listeners.append(listener)


@contextlib.contextmanager
def collecting(graph: str = "") -> Iterator[Collector]:
    """Collect the reports of the graphs that this thread compiles inside the `with` block.

    Args:
        graph: What to call the graph.

    Yields:
        What is filled meanwhile; its attribute `reports` has the reports.
    """
    collector = Collector(graph)
    token = _collector.set(collector)
    try:
        yield collector
    finally:
        _collector.reset(token)


@contextlib.contextmanager
def reporting(
    name: str,
    distribution: str | None,
    version: str | None,
    options: object,
    graph: str = "",
    place: GraphPlace | None = None,
) -> Iterator[ReportBuilder]:
    """Fill a report while a graph compiles, for who collects it or else the listeners; that of a part is nobody's.

    Args:
        name: The backend's name.
        distribution: Its distribution.
        version: That one's version.
        options: Its options.
        graph: What to call the graph where nobody collects.
        place: Where in the program it is.
    """
    collector, inside = _collector.get(), _current.get() is not None
    builder = ReportBuilder(graph) if inside or collector is None else collector.begin()
    builder.place = place
    told = "" if options is None or type(options).__name__ == "NoOptions" else repr(options)
    builder.owner = (name, distribution or "", version or "", told)
    token = _current.set(builder)
    started = time.perf_counter()
    builder.outcome = "failed"
    try:
        yield builder
    finally:
        builder.seconds["total"] = time.perf_counter() - started
        _current.reset(token)
    if not inside and collector is None:
        for listener in tuple(_listeners):
            listener(builder)


@contextlib.contextmanager
def timed_stage(stage: str) -> Iterator[None]:
    """Add the time spent inside to the report of the graph being compiled, under a name such as `"lowering"`.

    Raises:
        DeclarationError: The name is no text, or is `"total"`, which the framework keeps itself.
    """
    given: object = stage
    if not isinstance(given, str) or stage in ("", "total"):
        raise DeclarationError(f"timed_stage has the name {stage!r}; it must be a text such as 'lowering', not 'total'")
    builder = _current.get()
    started = time.perf_counter()
    try:
        yield
    finally:
        if builder is not None:
            builder.seconds[stage] = builder.seconds.get(stage, 0.0) + time.perf_counter() - started


def _note_cache(outcome: CacheOutcome) -> None:
    builder = _current.get()
    if builder is not None:
        builder.cache.append(outcome)


def _note_artifact(kind: str, name: str, _: object) -> None:
    builder = _current.get()
    if builder is not None:
        builder.artifacts.append((kind, name))


listen_to_cache(_note_cache)
listen_to_artifacts(_note_artifact)


def kind_of(error: BaseException) -> FailureKind:
    """What an error of a backend's means."""
    if isinstance(error, UnsupportedGraph):
        return "unsupported"
    return "resource" if isinstance(error, BackendResourceError) else "bug"
