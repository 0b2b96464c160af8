"""What happens while capturing, as one stream of events.

Logs, `explain`, counters, plugins and tests subscribe to the stream; nothing else in Graphwright prints. An event is a
frozen dataclass, made on cold paths only: a cached call emits none.
"""

from graphwright.events.backend import (
    ArtifactCacheUsed,
    ArtifactRejected,
    BackendArtifact,
    BackendChosen,
    BackendFailed,
    BackendFellBack,
    BackendUsed,
    FrozenWeightsChanged,
    GraphLeftToEager,
    GraphPartitioned,
    NothingOnBackend,
)
from graphwright.events.base import Event, shown_stack, source_line
from graphwright.events.capture import (
    Bytecode,
    DimensionFixed,
    DimensionMadeDynamic,
    FrameFinished,
    FrameStarted,
    GraphBroke,
    GraphCaptured,
    GraphCompiled,
    GuardsBuilt,
    InstructionTraced,
)
from graphwright.events.fallback import (
    CacheLimitHit,
    FrameSkipped,
    GraphFailed,
    InternalErrorCaught,
    MechanismOff,
    Recompiled,
)
from graphwright.events.site import CaptureSite
from graphwright.events.stream import STREAM, EventStream, Subscriber

subscribe = STREAM.subscribe
unsubscribe = STREAM.unsubscribe
emit = STREAM.emit
wants = STREAM.wants
is_heard = STREAM.is_heard
counters = STREAM.counters
compile_times = STREAM.compile_times
reset_counters = STREAM.reset_counters
collected = STREAM.collected

__all__ = [
    "STREAM",
    "ArtifactCacheUsed",
    "ArtifactRejected",
    "BackendArtifact",
    "BackendChosen",
    "BackendFailed",
    "BackendFellBack",
    "BackendUsed",
    "Bytecode",
    "CacheLimitHit",
    "CaptureSite",
    "DimensionFixed",
    "DimensionMadeDynamic",
    "Event",
    "EventStream",
    "FrameFinished",
    "FrameSkipped",
    "FrameStarted",
    "FrozenWeightsChanged",
    "GraphBroke",
    "GraphCaptured",
    "GraphCompiled",
    "GraphFailed",
    "GraphLeftToEager",
    "GraphPartitioned",
    "GuardsBuilt",
    "InstructionTraced",
    "InternalErrorCaught",
    "MechanismOff",
    "NothingOnBackend",
    "Recompiled",
    "Subscriber",
    "collected",
    "compile_times",
    "counters",
    "emit",
    "is_heard",
    "reset_counters",
    "shown_stack",
    "source_line",
    "subscribe",
    "unsubscribe",
    "wants",
]
