"""A backend with the name of the sample plugin's."""

from collections.abc import Sequence
from typing import Any

from torch import fx

from graphwright_plugins import Capabilities, CompiledGraph


class OtherSampleBackend:
    """Runs graphs as they are."""

    name = "sample"
    capabilities = Capabilities()

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: Any) -> CompiledGraph:
        """Return the graph's own forward."""
        forward: CompiledGraph = graph.forward
        return forward


sample = OtherSampleBackend()
