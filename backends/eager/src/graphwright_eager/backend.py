"""The backends `eager` and `aot_eager`, against which others are compared."""

from collections.abc import Sequence
from typing import Any, Final

from torch import fx

from graphwright_plugins import Capabilities, CompiledGraph, GraphForm, NoOptions, run_in_eager

from .options import AotEagerOptions


class EagerBackend:
    """Runs the captured graph as it is, call by call, so that only capture itself can make a difference."""

    name: Final = "eager"
    capabilities: Final = Capabilities(bitwise=True)
    options_type: Final = NoOptions
    api_version: Final = (1, 0)

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: NoOptions) -> CompiledGraph:
        """Return the graph's own forward."""
        forward: CompiledGraph = graph.forward
        return forward


class AotEagerBackend:
    """Lets AOTAutograd make forward and backward graphs and runs them operator by operator."""

    name: Final = "aot_eager"
    capabilities: Final = Capabilities()
    options_type: Final = AotEagerOptions
    api_version: Final = (1, 0)

    def graph_form(self, options: AotEagerOptions) -> GraphForm:
        """Operators, as AOTAutograd makes them."""
        return GraphForm(level="aten", decompositions=options.decompositions, partition=options.partition)

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: AotEagerOptions) -> CompiledGraph:
        """Leave the operators as they are."""
        return run_in_eager(graph, example_inputs)


eager = EagerBackend()
aot_eager = AotEagerBackend()
