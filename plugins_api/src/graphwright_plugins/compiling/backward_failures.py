"""Tells whose graph it was that failed in a backward pass.

A backward graph is compiled, or runs, when the program has long left the function that it is of, and torch's engine
raises what it raised. So its errors get a note: of which function, by which backend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from torch import fx

from graphwright_plugins.errors import BackendContractError
from graphwright_plugins.graphs.values import output_values
from graphwright_plugins.protocol import CompiledGraph
from graphwright_plugins.report import GraphPlace
from graphwright_plugins.signature import GraphKind, attached_signature
from graphwright_plugins.torch_compat import is_boxed, mark_boxed


@dataclass(frozen=True)
class BackwardFailure:
    """A backward graph failed."""

    stage: Literal["compiling", "running"]
    """When."""
    backend: str
    """The backend's name."""
    place: GraphPlace
    """Where in the program it comes from."""
    error: Exception
    """What was raised."""


FailureListener: TypeAlias = Callable[[BackwardFailure], None]
"""Called when a backward graph fails, before the error goes to the program."""

_listeners: list[FailureListener] = []  # filled by the framework when it is imported


def listen_to_backward_failures(listener: FailureListener) -> None:
    """Have a function called with every failure of a backward graph. Adding a listener again changes nothing."""
    if listener not in _listeners:
        _listeners.append(listener)


@dataclass(frozen=True)
class BackwardOwner:
    """Whose backward graph it is."""

    backend: str
    """The backend's name."""
    whose: str
    """The backend in a message, with the distribution that it comes from."""
    place: GraphPlace
    """Where in the program it comes from."""
    n_outputs: int
    """How many outputs it has."""

    def around(self, function: CompiledGraph) -> CompiledGraph:
        """The compiled graph, whose failures are told; boxed if it is."""

        def call(*inputs: Any) -> Any:
            try:
                results = function(*inputs)
                if len(results) != self.n_outputs:
                    raise BackendContractError(
                        f"it returned {len(results)} outputs where the graph has {self.n_outputs}"
                    )
            except Exception as error:
                self.note("running", error)
                raise
            return results

        return mark_boxed(call) if is_boxed(function) else call

    def note(self, stage: Literal["compiling", "running"], error: Exception) -> None:
        """Note on an error where it was raised, and tell the listeners."""
        error.add_note(f"Raised {stage} the backward graph of {self.place} by {self.whose}")
        for listener in tuple(_listeners):
            listener(BackwardFailure(stage, self.backend, self.place, error))


def backward_owner(graph: fx.GraphModule, backend: str, whose: str) -> BackwardOwner | None:
    """The owner of a backward graph; None for any other graph."""
    signature = attached_signature(graph)
    if signature is None or signature.kind is not GraphKind.BACKWARD or signature.part_of is not None:
        return None
    place = of_program(graph)[1] or GraphPlace("a function", "", 0)
    return BackwardOwner(backend, whose, place, len(output_values(graph)))


def of_program(graph: fx.GraphModule) -> tuple[str, GraphPlace | None]:
    """What to call a graph that is compiled while the program runs, and where in the program it comes from."""
    signature = attached_signature(graph)
    if signature is None or signature.extent is None:
        return "", None
    kind = "" if signature.kind is GraphKind.CAPTURED else f"{signature.kind} "
    extent = signature.extent
    place = GraphPlace(extent.function, extent.filename, extent.lineno)
    return f"the {kind}graph of {extent.function}", place
