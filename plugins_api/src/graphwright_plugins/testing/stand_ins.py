"""Backends that hand on to the one under test with something changed, so that the kit can ask for what it needs."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins.form.graph_form import GraphForm, form_of
from graphwright_plugins.protocol import Capabilities, CompiledGraph
from graphwright_plugins.resolve import ResolvedBackend
from graphwright_plugins.supports import HasSupports, Unsupported, op_text

TAKES_OPTIONS: Final = ("supports", "partition")
"""Optional methods whose last argument is the options."""

TAKEN_OVER: Final = ("fallback_backend", "minimum_part_size", "update_weights")
"""Other optional attributes on which it depends what the backend is given."""

REFUSED: Final = "the conformance kit takes it away"
"""The reason that `Refusing` gives."""


class StandIn:
    """A backend that compiles by another one, and is given what that one would be.

    It has the optional methods that decide on this exactly where the other has them: they are what the protocols ask
    for. They are attributes of the object, since protocols don't see what `__getattr__` gives.

    Args:
        resolved: The other, with its options.
    """

    def __init__(self, resolved: ResolvedBackend) -> None:
        self._resolved = resolved
        self.compiled = 0
        """How many graphs came."""
        other = resolved.backend
        own = {name: self._with_options(getattr(other, name)) for name in TAKES_OPTIONS if hasattr(other, name)}
        own |= {name: getattr(other, name) for name in TAKEN_OVER if hasattr(other, name)}
        vars(self).update({name: value for name, value in own.items() if not hasattr(type(self), name)})

    @property
    def name(self) -> str:
        """The other's name."""
        return self._resolved.name

    @property
    def capabilities(self) -> Capabilities:
        """The other's capabilities."""
        return self._resolved.capabilities

    def graph_form(self, options: Any) -> GraphForm:
        """The form that the other wants."""
        return form_of(self._resolved.backend, self._resolved.options)

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: Any) -> CompiledGraph:
        """Have the other compile the graph."""
        self.compiled += 1
        self._resolved.prepare()
        return self._resolved.backend.compile(graph, example_inputs, self._resolved.options)

    def _with_options(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method that gives the other its own options, whatever those of the stand-in are."""
        return lambda *args: method(*args[:-1], self._resolved.options)


class Refusing(StandIn):
    """Doesn't do the calls whose text matches a pattern, nor what the other one doesn't do."""

    def __init__(self, resolved: ResolvedBackend, pattern: str) -> None:
        super().__init__(resolved)
        self._pattern = re.compile(pattern)

    def supports(self, node: fx.Node, options: Any) -> Unsupported | None:
        """Refuse what matches; else what the other says."""
        if self._pattern.search(op_text(node)):
            return Unsupported(REFUSED)
        other = self._resolved.backend
        return other.supports(node, self._resolved.options) if isinstance(other, HasSupports) else None


class Failing(StandIn):
    """Raises after the other one has compiled."""

    def __init__(self, resolved: ResolvedBackend, error: Exception) -> None:
        super().__init__(resolved)
        self._error = error

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: Any) -> CompiledGraph:
        """Compile, and raise all the same."""
        super().compile(graph, example_inputs, options)
        raise self._error


class Recording(StandIn):
    """Writes down which graphs come."""

    def __init__(self, resolved: ResolvedBackend) -> None:
        super().__init__(resolved)
        self.graphs: list[str] = []
        """Each graph as text, with what is known of its inputs; equal for equal graphs."""

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: Any) -> CompiledGraph:
        """Write the graph down, and have the other compile it."""
        self.graphs.append(_described(graph, example_inputs))
        return super().compile(graph, example_inputs, options)


def _described(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> str:
    number = {node: f"%{place}" for place, node in enumerate(graph.graph.nodes)}
    nodes = [
        (
            node.op,
            "" if node.op == "placeholder" else op_text(node),
            fx.node.map_arg((node.args, node.kwargs), number.get),
        )
        for node in graph.graph.nodes
    ]
    inputs = [
        (value.dtype, tuple(value.shape), value.stride(), value.device) if isinstance(value, torch.Tensor) else value
        for value in example_inputs
    ]
    return f"{nodes} {inputs}"
