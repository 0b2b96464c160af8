"""Graphs whose outputs are tensors with memory of their own: what else they return is made around them.

Outputs that are inputs, literals or repetitions are put in where the results are put together. A view is made anew from
what it is a view of: an input, or a result of the compiled graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import fx

from graphwright_plugins.errors import UnsupportedGraph
from graphwright_plugins.graphs.own_copy import own_copy
from graphwright_plugins.graphs.unused_results import fresh_inputs, values_of_nodes
from graphwright_plugins.graphs.values import output_values, storages_of
from graphwright_plugins.torch_compat import FakeTensorMode

from .reshaped_signature import Reshaped, note_again, signature_before, unchanged


@dataclass(frozen=True)
class _Result:
    """Where one output of the original graph comes from."""

    origin: Literal["computed", "input", "literal", "view"]
    index: int = -1
    value: Any = None


@dataclass
class OutputPlan:
    """How the outputs of the original graph are put together."""

    results: list[_Result] = field(default_factory=list)
    computed: list[fx.Node] = field(default_factory=list)
    """What the compiled graph returns."""
    replay: Callable[..., Sequence[Any]] | None = None
    """Makes the views, of the inputs and what the compiled graph returns."""
    replayed: set[fx.Node] = field(default_factory=set)
    """The nodes that this does."""

    @property
    def changes_nothing(self) -> bool:
        """Whether the compiled graph returns just what the original one does."""
        return [(r.origin, r.index) for r in self.results] == [("computed", i) for i in range(len(self.results))]

    def compute(self, node: fx.Node) -> int:
        """The position of a node among what the compiled graph returns."""
        if node not in self.computed:
            self.computed.append(node)
        return self.computed.index(node)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled graph, returning what the original graph does."""
        results, replay = tuple(self.results), self.replay

        def call(*inputs: Any) -> Any:
            computed = function(*inputs)
            views = replay(*inputs, *computed) if replay is not None else ()
            sources = {"computed": computed, "input": inputs, "view": views}
            return tuple(r.value if r.origin == "literal" else sources[r.origin][r.index] for r in results)

        return call


def with_plain_outputs(
    graph: fx.GraphModule, example_inputs: Sequence[Any], fake_mode: FakeTensorMode, *, aliasing: bool
) -> Reshaped:
    """The graph with fewer outputs; the others are made around it.

    Args:
        graph: The graph, its nodes' values noted; it is not changed.
        example_inputs: Its inputs on fakes.
        fake_mode: Their mode.
        aliasing: Whether aliases among outputs and inputs may stay; literals go in any case.

    Raises:
        UnsupportedGraph: An output is a view that can't be made anew.
    """
    before = signature_before(graph, example_inputs)
    own = own_copy(graph)
    values = values_of_nodes(own, fresh_inputs(example_inputs, fake_mode), fake_mode)
    plan = OutputPlan()
    _Planner(own, values, plan).plan(aliasing)
    if plan.changes_nothing:
        return unchanged(graph, example_inputs)
    results = output_values(own)
    kept = [next((i for i, r in enumerate(results) if r is node), -1) for node in plan.computed]
    own.graph.output_node().args = (tuple(plan.computed),)
    for node in reversed(own.graph.nodes):
        if node in plan.replayed and not node.users:
            own.graph.erase_node(node)
    every = range(len(example_inputs))
    note_again(own, example_inputs, fake_mode, before, every, kept)
    return Reshaped(own, list(example_inputs), every, plan.around)


class _Planner:
    """Says where each output of a graph is to come from."""

    def __init__(self, graph: fx.GraphModule, values: Mapping[fx.Node, Any], plan: OutputPlan) -> None:
        self.graph = graph
        self.values = values
        self.placeholders = graph.graph.find_nodes(op="placeholder")
        self.same: dict[fx.Node, fx.Node] = {}
        """For a node that gives an object which an earlier one gave, as in-place operations do, that one."""
        self.first: dict[int, fx.Node] = {}
        """The first tensor of each memory."""
        self._plan = plan
        seen: dict[int, fx.Node] = {}
        for node, value in values.items():
            if node.op != "output" and isinstance(value, torch.Tensor):
                self.same[node] = seen.setdefault(id(value), node)
                for key in storages_of(value):
                    self.first.setdefault(key, node)

    def plan(self, aliasing: bool) -> None:
        """Fill the plan; `aliasing` says that aliases may stay."""
        results = output_values(self.graph)
        views: list[tuple[fx.Node, fx.Node]] = []
        for result in results:
            if not isinstance(result, fx.Node):
                self._plan.results.append(_Result("literal", value=result))
                continue
            node = result if aliasing else self.same.get(result, result)
            base = None if aliasing else self._base(node, results)
            if not aliasing and node in self.placeholders:
                self._plan.results.append(_Result("input", self.placeholders.index(node)))
            elif base is None:
                self._plan.results.append(_Result("computed", self._plan.compute(node)))
            else:
                if (node, base) not in views:
                    views.append((node, base))
                if base not in self.placeholders:
                    self._plan.compute(base)
                self._plan.results.append(_Result("view", views.index((node, base))))
        if views:
            self._replay(views)

    def _base(self, node: fx.Node, results: Sequence[Any]) -> fx.Node | None:
        """What an output is a view of; None for one that shares its memory with no input and no other output."""
        keys = set(storages_of(self.values[node]))
        base = next((self.first[key] for key in keys), node)
        if base is node:
            return None
        others = {self.same.get(r, r) for r in results if isinstance(r, fx.Node)} - {node}
        shared = any(keys & set(storages_of(self.values[other])) for other in others)
        return base if shared or base in self.placeholders else None

    def _replay(self, views: Sequence[tuple[fx.Node, fx.Node]]) -> None:
        """Make the graph that makes the views, of the inputs and of what is computed."""
        graph = fx.Graph()
        known = {node: graph.placeholder(node.name) for node in self.placeholders}
        known |= {node: graph.placeholder(node.name) for node in self._plan.computed}
        made = []
        for node, base in views:
            for step in self._steps(node, base):
                if step not in known:
                    known[step] = graph.node_copy(step, lambda argument: known[self.same.get(argument, argument)])
                    self._plan.replayed.add(step)
            made.append(known[node])
        graph.output(tuple(made))
        self._plan.replay = fx.GraphModule(self.graph, graph).forward

    def _steps(self, node: fx.Node, base: fx.Node) -> list[fx.Node]:
        """The nodes from what a view is a view of to the view itself, in order.

        Raises:
            UnsupportedGraph: One of them is more than a view, or a number that is computed from other tensors.
        """
        memory = set(storages_of(self.values[base]))
        found: set[fx.Node] = set()
        pending = [node]
        while pending:
            step = self.same.get(current := pending.pop(), current)
            if step in found or step is base or step.op == "placeholder" or step in self._plan.computed:
                continue
            keys = set(storages_of(self.values[step]))
            if not keys <= memory or step.op not in ("call_function", "call_method"):
                raise UnsupportedGraph(
                    f"the output {node.name} shares memory with {base.name}, and is no plain view of it",
                    node=node.name,
                    reason="an output that shares memory can't be made anew outside of the graph",
                )
            found.add(step)
            pending.extend(step.all_input_nodes)
        return [each for each in self.graph.graph.nodes if each in found]
