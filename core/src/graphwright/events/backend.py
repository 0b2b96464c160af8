"""What a backend did with a graph, and what became of the parts that it did not take."""

from __future__ import annotations

from dataclasses import dataclass

from graphwright.events.base import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendChosen(Event):
    """No backend was asked for, and this one was taken."""

    backend: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendUsed(Event):
    """A graph goes to a backend."""

    graph_name: str
    backend: str
    distribution: str = ""
    version: str = ""


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
    """A saved graph is damaged, is refused or does not load, so that it is compiled; or one cannot be saved.

    Or nothing can be looked up: their place cannot be used, or the backend does not tell what a graph depends on.
    """

    backend: str
    key: str
    """What it is looked up by; empty where that can't be told, so that nothing is looked up or saved."""
    reason: str
    saving: bool = False
    """Whether it is about saving what was compiled, and not about loading."""


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
    """Something a backend made on the way: an AOTAutograd graph, generated source. Emitted if somebody hears it."""

    kind: str
    """`"aot_graphs"` or `"output_code"`, the name of the log it goes to."""
    name: str
    text: str
