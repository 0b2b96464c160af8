"""Graphs that begin or end in another gradient mode than what they compute in.

A graph that ends at a break inside `torch.no_grad()` is such a one, or that goes on there. AOTAutograd takes what it
wrote to its inputs after all of it was traced, in the mode that it ended in, and writes it to them after it ran, in the
mode that it was called in: with gradients off at either place, an input written to with gradients on would lose its
history. So gradients are on at the beginning and the end of such a graph; it turns them off and on inside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from graphwright_plugins.graphs.own_copy import own_copy
from graphwright_plugins.protocol import CompiledGraph
from graphwright_plugins.torch_compat import set_grad_enabled


@dataclass(frozen=True)
class GradModeAround:
    """A graph that begins and ends with gradients on, in place of one that does not."""

    left_on: bool
    """Whether they are to be on after it."""

    def around(self, function: CompiledGraph) -> CompiledGraph:
        """The function that AOTAutograd made of the graph, called in any mode."""

        def call(*inputs: Any) -> Any:
            after = torch.is_grad_enabled()
            set_grad_enabled(True)
            try:
                results = function(*inputs)
                after = self.left_on
            finally:
                set_grad_enabled(after)
            return results

        return call


@contextlib.contextmanager
def gradients_on_around(graph: fx.GraphModule) -> Iterator[tuple[fx.GraphModule, GradModeAround | None]]:
    """A block in which to compile a graph, where it matters with gradients on at its beginning and end.

    Yields:
        The graph to compile in the block, and what has to stand around what comes of it; None where nothing has to.
    """
    setters = [node for node in graph.graph.nodes if node.target is set_grad_enabled]
    on_at_first = torch.is_grad_enabled()
    modes = [on_at_first, *(bool(node.args[0]) for node in setters)]
    if not any(modes) or (modes[0] and modes[-1]):
        yield graph, None
        return
    own = own_copy(graph)
    placeholders = own.graph.find_nodes(op="placeholder")
    if not on_at_first:
        with own.graph.inserting_before(placeholders[-1].next if placeholders else next(iter(own.graph.nodes))):
            own.graph.call_function(set_grad_enabled, (False,))
    with own.graph.inserting_before(own.graph.output_node()):
        own.graph.call_function(set_grad_enabled, (True,))
    own.recompile()
    with torch.enable_grad():
        yield own, GradModeAround(left_on=modes[-1])
