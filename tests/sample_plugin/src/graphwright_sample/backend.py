"""The backend `sample`: runs a graph as it is, unless it is too large."""

from collections.abc import Sequence
from typing import Any

from torch import fx

from graphwright_plugins import Capabilities, CompiledGraph, UnsupportedGraph
from graphwright_sample.options import SampleOptions


class SampleBackend:
    """Returns the graph unchanged, which is where to start."""

    name = "sample"
    capabilities = Capabilities(bitwise=True)
    options_type = SampleOptions
    api_version = (1, 0)

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: SampleOptions) -> CompiledGraph:
        """Compile one graph; see `graphwright_plugins.Backend.compile`."""
        calls = [node for node in graph.graph.nodes if node.op.startswith("call_")]
        if len(calls) > options.most_calls:
            first_over = calls[options.most_calls]
            reason = f"it has {len(calls)} calls, and option 'most_calls' allows {options.most_calls}"
            raise UnsupportedGraph(
                f"backend 'sample' refuses this graph: {reason}. Raise the option, or compile a smaller function.",
                node=first_over.name,
                reason=reason,
            )
        forward: CompiledGraph = graph.forward
        return forward


backend = SampleBackend()
