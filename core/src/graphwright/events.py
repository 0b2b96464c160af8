"""What happens while capturing, as one stream of events.

Logs, `explain`, counters, plugins and tests subscribe to the stream; nothing else in Graphwright prints. An event is a
frozen dataclass, made on cold paths only: a cached call emits none.
"""

from __future__ import annotations

import contextlib
import itertools
import linecache
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeAlias

from graphwright.exc import CodeLocation
from graphwright.graph_breaks import GraphBreakKind

if TYPE_CHECKING:
    from torch import fx

    from graphwright.guards.failure import GuardFailure
    from graphwright_plugins import GraphReport

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base class of all events."""

    location: CodeLocation | None = None
    """Where in the user's code; None where no single place is meant."""
    compile_id: str = ""
    """Which capture this belongs to, the same in all its events; empty outside of captures."""


def source_line(location: CodeLocation | None) -> str:
    """The line of source at a place, stripped; empty where it cannot be read."""
    if location is None:
        return ""
    return (location.text or linecache.getline(location.filename, location.line)).strip()


def shown_stack(places: Sequence[CodeLocation]) -> list[str]:
    """The lines that show a stack, outermost call first; a place that repeats is shown once, with a count."""
    lines = []
    for place, group in itertools.groupby(places):
        lines.append(f"{place} in {place.function}: {source_line(place)}")
        repeated = len(list(group)) - 1
        if repeated:
            lines.append(f"... {repeated} more calls at the same place")
    return lines


Subscriber: TypeAlias = Callable[[Event], object]


# ------------------------------------------------------------------ one capture, in order


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameStarted(Event):
    """A frame passed the filter, and its translation begins."""

    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionTraced(Event):
    """The translator is about to run an instruction. Costly: emitted only if `EventStream.wants` it."""

    instruction: str
    stack: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBroke(Event):
    """A graph ends before the function does, or the whole frame is given up, at an instruction."""

    kind: GraphBreakKind
    detail: str
    user_stack: tuple[CodeLocation, ...] = ()

    @property
    def gw_id(self) -> str:
        """The catalogue's stable id."""
        return self.kind.gw_id

    @property
    def reason(self) -> str:
        """What was met, in one sentence."""
        return f"{self.kind.title}: {self.detail}" if self.detail else self.kind.title

    @property
    def remedy(self) -> str:
        """What the user can do about it."""
        return self.kind.remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCaptured(Event):
    """A graph is complete, before the backend gets it."""

    graph_module: fx.GraphModule
    name: str
    example_inputs: Sequence[Any] = ()

    @property
    def op_count(self) -> int:
        """Calls in the graph."""
        return sum(node.op in ("call_function", "call_method", "call_module") for node in self.graph_module.graph.nodes)

    @property
    def input_count(self) -> int:
        """Placeholders of the graph."""
        return sum(node.op == "placeholder" for node in self.graph_module.graph.nodes)

    @property
    def code(self) -> str:
        """The graph as readable Python."""
        return self.graph_module.print_readable(print_output=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendUsed(Event):
    """A graph goes to a backend."""

    graph_name: str
    backend: str
    distribution: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCompiled(Event):
    """The backend compiled a graph."""

    name: str
    backend: str
    seconds: float
    reports: tuple[GraphReport, ...] = ()
    """What became of the graph at the backend; several where it was compiled in several forms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendFailed(Event):
    """The backend raised while compiling a graph."""

    graph_name: str
    backend: str
    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLeftToEager(Event):
    """The backend can't do a graph as eager does, and has the graph itself run in its place."""

    graph_name: str
    backend: str
    error: Exception
    """What the backend raised; its message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendFellBack(Event):
    """The backend failed to compile a graph, or a part of one, and the fallback backend runs it in its place."""

    graph_name: str
    backend: str
    distribution: str
    version: str
    fallback: str
    error: Exception
    """What the backend raised."""
    kind: str
    """`"unsupported"`, `"resource"` or `"bug"`."""
    part: int | None = None
    """Which part of the graph; None for the whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPartitioned(Event):
    """A graph was cut, since the backend does not do all of its nodes."""

    graph_name: str
    backend: str
    fallback: str
    parts: int
    on_backend: int
    """How many of the parts run on the backend."""
    reasons: tuple[str, ...]
    """For each node that the backend does not do, what it is, where, and why not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingOnBackend(Event):
    """The backend does none of a graph's nodes, so that all of it runs on the fallback backend."""

    graph_name: str
    backend: str
    fallback: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactCacheUsed(Event):
    """A graph was looked up among those that were compiled before, by any process, or was saved there."""

    result: str
    """`"hit"`: loaded, not compiled. `"miss"`: there was none. `"saved"`. `"not_cached"`: this graph can't be."""
    backend: str
    key: str
    reason: str = ""
    n_bytes: int = 0
    seconds: float = 0.0
    """What looking and loading took, or saving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRejected(Event):
    """A saved graph is damaged, is refused or does not load, or the place for them cannot be used; it is compiled."""

    backend: str
    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenWeightsChanged(Event):
    """Weights that a compiled graph holds as constants are others in a call."""

    function: str
    changed: tuple[str, ...]
    """The weights, in the program's terms."""
    how: str
    """`"replaced"`: other tensors, as those of another module of the class. `"written to"`: the same ones."""
    action: str
    """`"compiled anew"`, `"refitted"`, `"weights as inputs"`, `"runs in eager"`."""
    reason: str = ""
    """Why no less could be done; empty where that is plain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendArtifact(Event):
    """Something a backend made on the way: an AOTAutograd graph, generated source."""

    kind: str
    """`"aot_graphs"` or `"output_code"`, the name of the log it goes to."""
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytecode(Event):
    """Replacement code was made for a frame."""

    function: str
    original: CodeType
    replacement: CodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardsBuilt(Event):
    """The guards of an entry are known; each prints itself as one line."""

    function: str
    guards: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameFinished(Event):
    """A capture ended, whatever came of it."""

    function: str
    outcome: str
    """`"compiled"`, `"skipped"`, `"run_only"` or `"failed"`."""
    seconds: float


# ------------------------------------------------------------------ leaving code to the interpreter, recompiling


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
class DimensionMadeDynamic(Event):
    """A size or an int became symbolic."""

    source: str
    symbol: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionFixed(Event):
    """The program asked for the value of a size or number that would have been symbolic: the entry serves it alone.

    Attributes:
        asked_at: where the program was, as in a traceback; empty if that is not known.
    """

    source: str
    value: int | float
    asked_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalErrorCaught(Event):
    """Capture met a bug of Graphwright's own; the frame runs in eager."""

    function: str
    error: BaseException


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendChosen(Event):
    """No backend was asked for, and this one was taken."""

    backend: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismOff(Event):
    """Part of Graphwright does not work on this machine; what stands in for it is slower or does less."""

    mechanism: str
    reason: str
    remedy: str = ""


# ------------------------------------------------------------------ the stream


class EventStream:
    """Hands every event to every subscriber, in the emitting thread, in order of subscription."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers: tuple[tuple[Subscriber, frozenset[type[Event]] | None], ...] = ()
        self._counts: Counter[str] = Counter()
        self._seconds: dict[str, float] = {"total": 0.0, "backend": 0.0}

    def renew_lock(self) -> None:
        """Have a free lock, in a child process forked while another thread held it."""
        self._lock = threading.Lock()

    def subscribe(self, callback: Subscriber, *kinds: type[Event]) -> None:
        """Call `callback` with every event from now on.

        Args:
            callback: Takes one event. What it raises is logged and goes no further: an observer never changes what
                the program does.
            *kinds: Event classes to be told of; all but `InstructionTraced` when none is given.
        """
        wanted = frozenset(kinds) if kinds else None
        with self._lock:
            self._subscribers = (*self._subscribers, (callback, wanted))

    def unsubscribe(self, callback: Subscriber) -> None:
        """Stop calling `callback`; nothing happens if it is not subscribed."""
        with self._lock:
            self._subscribers = tuple(pair for pair in self._subscribers if pair[0] != callback)

    def wants(self, kind: type[Event]) -> bool:
        """Whether a subscriber asked for this class of events by name; for events that cost time to make."""
        return any(wanted is not None and kind in wanted for _, wanted in self._subscribers)

    def emit(self, event: Event) -> None:
        """Count an event and tell the subscribers."""
        kind = type(event)
        if kind is not InstructionTraced:
            self._count(event)
        for callback, wanted in self._subscribers:
            if (kind is not InstructionTraced) if wanted is None else (kind in wanted):
                self._tell(callback, event)

    def _count(self, event: Event) -> None:
        with self._lock:
            self._counts[type(event).__name__] += 1
            if isinstance(event, GraphBroke):
                self._counts[event.gw_id] += 1
            elif isinstance(event, GraphCompiled):
                self._seconds["backend"] += event.seconds
            elif isinstance(event, FrameFinished):
                self._seconds["total"] += event.seconds

    @staticmethod
    def _tell(callback: Subscriber, event: Event) -> None:
        try:
            callback(event)
        except Exception:  # noqa: BLE001  an observer's bug is not the program's
            _log.exception("subscriber %r failed on %s", callback, type(event).__name__)

    def counters(self) -> dict[str, int]:
        """How many events of each class there were, by class name, and how many graph breaks by id."""
        with self._lock:
            return dict(self._counts)

    def compile_times(self) -> dict[str, float]:
        """Seconds spent capturing (`"total"`), and the part of it spent in backends (`"backend"`)."""
        with self._lock:
            return dict(self._seconds)

    def reset_counters(self) -> None:
        """Start counting from zero."""
        with self._lock:
            self._counts.clear()
            self._seconds = dict.fromkeys(self._seconds, 0.0)

    @contextlib.contextmanager
    def collected(self, *kinds: type[Event]) -> Iterator[list[Event]]:
        """A list that fills with the events this thread emits inside the `with` block."""
        found: list[Event] = []
        thread = threading.get_ident()

        def keep(event: Event) -> None:
            if threading.get_ident() == thread:
                found.append(event)

        self.subscribe(keep, *kinds)
        try:
            yield found
        finally:
            self.unsubscribe(keep)


STREAM = EventStream()
"""The one stream of the process."""
os.register_at_fork(after_in_child=STREAM.renew_lock)

subscribe = STREAM.subscribe
unsubscribe = STREAM.unsubscribe
emit = STREAM.emit
wants = STREAM.wants
counters = STREAM.counters
compile_times = STREAM.compile_times
reset_counters = STREAM.reset_counters
collected = STREAM.collected
