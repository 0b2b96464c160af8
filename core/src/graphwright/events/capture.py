"""One capture, from its first instruction to the entry that is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

from graphwright.events.base import Event
from graphwright.exc import CodeLocation
from graphwright.graph_breaks import GraphBreakKind

if TYPE_CHECKING:
    from torch import fx

    from graphwright_plugins import GraphReport


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
class GraphCompiled(Event):
    """The backend compiled a graph."""

    name: str
    backend: str
    seconds: float
    reports: tuple[GraphReport, ...] = ()
    """What became of the graph at the backend; several where it was compiled in several forms."""


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
