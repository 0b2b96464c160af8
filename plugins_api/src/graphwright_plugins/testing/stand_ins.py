"""Backends that hand on to the one under test with something changed, so that the kit can ask for what it needs."""

import re
from collections.abc import Sequence
from typing import Any, Final

from torch import fx

from graphwright_plugins.graph_form import GraphForm, form_of
from graphwright_plugins.protocol import Capabilities, CompiledGraph
from graphwright_plugins.resolve import ResolvedBackend
from graphwright_plugins.supports import HasSupports, Unsupported, op_text

REFUSED: Final = "the conformance kit takes it away"
"""The reason that `Refusing` gives."""


class StandIn:
    """A backend that compiles by another one.

    Args:
        resolved: The other, with its options.
    """

    def __init__(self, resolved: ResolvedBackend) -> None:
        self._resolved = resolved
        self.compiled = 0
        """How many graphs came."""

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
        return self._resolved.backend.compile(graph, example_inputs, self._resolved.options)


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
