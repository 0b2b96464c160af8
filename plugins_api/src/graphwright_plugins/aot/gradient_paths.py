"""Gradients that there are none of stay so, where AOTAutograd would give zeros.

A backward pass may begin at some of a graph's results only. In eager, inputs that these do not depend on have no
gradient then: `None`, which optimizers leave alone. The backward that AOTAutograd makes serves all results at once and
takes zeros for what is not asked for, so that such inputs get zeros, which weight decay and momentum act on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from graphwright_plugins.graphs.gradient_edges import Edge, edges_of
from graphwright_plugins.graphs.trial_run import TrialRun
from graphwright_plugins.protocol import CompiledGraph
from graphwright_plugins.torch_compat import FakeTensorMode, has_hooks

_BACKWARD = "CompiledFunctionBackward"
"""The class of AOTAutograd's node in the graph of gradients."""


@dataclass(frozen=True)
class GradientPaths:
    """Which inputs the results of a graph give gradients to, in eager.

    Attributes:
        to_inputs: by the index of a result, the indices of the inputs that its gradient flows to. Results that are
            inputs, or views of them, are not in it.
        of_written: the same for all inputs together that the graph writes to.
    """

    to_inputs: Mapping[int, frozenset[int]]
    of_written: frozenset[int] = frozenset()

    def around(self, function: CompiledGraph) -> CompiledGraph:
        """The function that AOTAutograd made of the graph, its gradients as there are in eager."""
        inputs_of_node: list[int | None] | None = None

        def call(*inputs: Any) -> Any:
            nonlocal inputs_of_node
            edges = {} if inputs_of_node is not None else edges_of(inputs)  # a write to an input gives it another
            results = function(*inputs)
            node, results_of = self._backward_of(results)
            if node is not None:
                if inputs_of_node is None:
                    inputs_of_node = [edges.get(edge) for edge in node.next_functions]
                node.register_hook(self._hook(_without_hooked(inputs_of_node, inputs), results_of))
            return results

        return call

    def _backward_of(self, results: Sequence[Any]) -> tuple[Any, dict[int, list[int]]]:
        """AOTAutograd's backward node, or None; and for each of its gradients the results that it may come from.

        A result that is a view has a node of its own, which leads there.
        """
        found: Any = None
        results_of: dict[int, list[int]] = defaultdict(list)
        for index in self.to_inputs:
            node, number = results[index].grad_fn, results[index].output_nr
            while node is not None and type(node).__name__ != _BACKWARD:
                node, number = node.next_functions[0] if node.next_functions else (None, 0)
            if node is not None:
                found = node
                results_of[number].append(index)
        return found, results_of

    def _hook(self, inputs_of_node: Sequence[int | None], results_of: Mapping[int, Sequence[int]]) -> Any:
        """What the backward node calls with its gradients; it must not know the node, which would be a cycle."""

        def drop_zeros(grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
            given = [number for number, gradient in enumerate(grad_outputs) if gradient is not None]
            if len(given) == len(grad_outputs):
                return None
            reached: set[int] = set()
            for number in given:  # what is not a result is an input that was written to
                paths = [self.to_inputs[result] for result in results_of.get(number, ())]
                reached = reached.union(*paths or [self.of_written])
            return tuple(
                None if index is not None and index not in reached else gradient
                for gradient, index in zip(grad_inputs, inputs_of_node, strict=True)
            )

        return drop_zeros


def _without_hooked(inputs_of_node: Sequence[int | None], inputs: Sequence[Any]) -> Sequence[int | None]:
    """The inputs of the node but those with hooks, which would be called with `None`; eager does not call them."""
    hooked = {i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor) and has_hooks(value)}
    return [None if index in hooked else index for index in inputs_of_node] if hooked else inputs_of_node


def gradient_paths(
    graph: fx.GraphModule, example_inputs: Sequence[Any], fake_mode: FakeTensorMode
) -> GradientPaths | None:
    """The paths of gradients through a graph, or None where all that has gradients afterwards leads to the same inputs.

    Args:
        graph: The graph; it is not changed.
        example_inputs: Its inputs, as fakes of this mode.
        fake_mode: The mode.
    """
    results = next(iter(reversed(graph.graph.nodes))).args[0]
    asking = [value for value in example_inputs if isinstance(value, torch.Tensor) and value.requires_grad]
    if not torch.is_grad_enabled() or len(asking) < 2 or not isinstance(results, (tuple, list)):
        return None
    if len(results) < 2 and all(value.is_leaf for value in asking):  # nothing else can have been written to
        return None
    trial = TrialRun(graph, example_inputs, fake_mode)
    paths = {
        index: _reached(trial.values[result], trial.edges)
        for index, result in enumerate(results)
        if isinstance(result, fx.Node) and trial.needs_gradients(result)
    }
    written = [_reached(trial.copies[index], trial.edges) for index in trial.written]
    of_written = frozenset[int]().union(*written)
    differing = {*paths.values(), *filter(None, written)}
    return GradientPaths(paths, of_written) if len(differing) > 1 else None


def _reached(result: Any, edges: Mapping[Edge, int]) -> frozenset[int]:
    """The inputs, given by their edges, that the gradient of a result flows to."""
    found: set[int] = set()
    pending = list(edges_of([result]))
    seen = set(pending)
    while pending:
        edge = pending.pop()
        if edge in edges:
            found.add(edges[edge])
        new = [other for other in edge[0].next_functions if other[0] is not None and other not in seen]
        seen.update(new)
        pending.extend(new)
    return frozenset(found)
