"""Carries out a cut: a graph for each part, and what remains to be done for the results."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import fx

from graphwright_plugins.graphs.ambient_state import AmbientState
from graphwright_plugins.graphs.facts import GraphFacts

from .decide import Cut
from .node_roles import NodeRoles

Value: TypeAlias = tuple[fx.Node, tuple[int, ...]]
"""What crosses a border: a node of the whole graph, and the way to one item where it gives several."""


@dataclass(frozen=True)
class CutPart:
    """A part as a graph of its own."""

    on_backend: bool
    """Whether the backend compiles it; else the fallback does."""
    module: fx.GraphModule
    """The graph; its output is a tuple."""
    inputs: tuple[Value, ...]
    """Where its inputs come from."""
    outputs: tuple[Value, ...]
    """What its outputs are."""
    writes: frozenset[int] = frozenset()
    """Ids of the memory that it writes to."""


@dataclass(frozen=True)
class CutGraph:
    """A graph in parts."""

    inputs: tuple[Value, ...]
    """The inputs of the whole."""
    parts: tuple[CutPart, ...]
    """The parts, in the order in which they run."""
    results: CutPart
    """Makes the whole's outputs of what the parts gave; does no more than take views."""
    facts: GraphFacts
    """What the nodes of the whole do."""


def carry_out(graph: fx.GraphModule, cut: Cut) -> CutGraph:
    """Make the graphs of a cut; the graph is not changed."""
    makers = [_Maker(graph, cut.roles, mine, nodes) for mine, nodes in cut.parts]
    home = {node: maker for maker in makers for node in maker.own}
    results = _Maker(graph, cut.roles, False, ())
    output = next(iter(reversed(graph.graph.nodes)))
    for maker in makers:
        maker.fill()
    outputs = fx.node.map_arg(output.args[0], results.value)
    for maker in (*makers, results):
        for node, path in maker.inputs:
            if node in home:
                home[node].give((node, path))
    placeholders = tuple((node, ()) for node in graph.graph.nodes if node.op == "placeholder")
    parts = tuple(maker.close() for maker in makers)
    return CutGraph(placeholders, parts, results.close(outputs), cut.roles.facts)


class _Maker:
    """Writes the graph of one part."""

    def __init__(self, root: fx.GraphModule, roles: NodeRoles, on_backend: bool, nodes: Sequence[fx.Node]) -> None:
        self.own = tuple(nodes)
        self.inputs: dict[Value, fx.Node] = {}
        self._root = root
        self._roles = roles
        self._on_backend = on_backend
        self._graph = fx.Graph()
        self._made: dict[fx.Node, fx.Node] = {}
        self._outputs: dict[Value, None] = {}
        self._last_input: fx.Node | None = None
        self._state: AmbientState = roles.facts.entry_state

    def fill(self) -> None:
        """Copy the part's own nodes."""
        for node in self.own:
            self._copy(node)

    def value(self, node: fx.Node) -> Any:
        """What stands here for a node of the whole graph: a node, a literal, or a tuple of them."""
        known = self._made.get(node)
        if known is not None:
            return known
        if node in self._roles.fixed:
            return self._roles.fixed[node]
        if node in self._roles.copied:
            return self._copy(node)
        same = self._roles.same_as(node)
        return self._crossing(node) if same is node else self.value(same)

    def give(self, value: Value) -> None:
        """Have the part return a value."""
        self._outputs[value] = None

    def close(self, outputs: Any = None) -> CutPart:
        """End the graph, with what was to be given, or with these outputs."""
        self._enter(self._roles.facts.entry_state)
        given = tuple(self._outputs)
        self._graph.output(tuple(map(self._item, given)) if outputs is None else outputs)
        module = fx.GraphModule(self._root, self._graph, class_name="Part")
        writes = frozenset(key for node in self.own for key in self._roles.facts.nodes[node].writes)
        return CutPart(self._on_backend, module, tuple(self.inputs), given, writes)

    def _item(self, value: Value) -> fx.Node:
        node, path = value
        made = self._made[node]
        for index in path:
            made = self._graph.call_function(operator.getitem, (made, index))
        return made

    def _copy(self, node: fx.Node) -> fx.Node:
        args, kwargs = fx.node.map_arg(node.args, self.value), fx.node.map_arg(node.kwargs, self.value)
        if node.op != "get_attr":
            self._enter(self._roles.facts.nodes[node].state)
        made = self._graph.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        self._made[node] = made
        return made

    def _enter(self, state: AmbientState) -> None:
        for function, args in state.calls_from(self._state):
            self._graph.call_function(function, args).meta["sets_state"] = True
        if state.autocast_nesting == 0 < self._state.autocast_nesting:  # as `torch.autocast` does at its end
            self._graph.call_function(torch.clear_autocast_cache).meta["sets_state"] = True
        self._state = state

    def _crossing(self, node: fx.Node) -> Any:
        def whole(value: Any, path: tuple[int, ...]) -> Any:
            if isinstance(value, (tuple, list)):
                items = [whole(item, (*path, index)) for index, item in enumerate(value)]
                return items if type(value) is list else tuple(items)
            return None if value is None else self._input((node, path))

        return whole(self._roles.value(node), ())

    def _input(self, value: Value) -> fx.Node:
        known = self.inputs.get(value)
        if known is not None:
            return known
        node, path = value
        name = "_".join(map(str, (node.name, *path)))
        insert = self._graph.inserting_after(self._last_input) if self._last_input else self._graph.inserting_before()
        with insert:
            made = self._graph.create_node("placeholder", name, (), {}, name)
        made.target = made.name
        made.meta = copy.copy(node.meta) if not path else {}
        self._last_input = self.inputs[value] = made
        return made


Compile: TypeAlias = Callable[[CutPart, Sequence[Any]], Callable[..., Sequence[Any]]]
"""Compiles one part for example inputs."""
