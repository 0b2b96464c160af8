"""A copy of a graph, to be changed."""

from __future__ import annotations

import copy

from torch import fx


def own_copy(graph: fx.GraphModule) -> fx.GraphModule:
    """A copy of a graph that may be changed; tensors that it holds are shared."""
    own = fx.GraphModule(graph, copy.deepcopy(graph.graph))
    own.meta.update(graph.meta)
    return own
