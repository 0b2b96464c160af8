"""Cutting a graph into parts that a backend does and parts that it does not, so that all effects stay in order.

torch's own partitioner (`torch.fx.passes.infra.partitioner`) looks at data alone. Here a node also comes after those
whose memory it reads or overwrites, and after others that draw random numbers or do what is not known. Over these edges
the nodes are put in order so that the side changes as rarely as it can: as long as anything of one side can go on, it
does. Parts that depend on each other in a circle can't come out of that.
"""

from __future__ import annotations

import contextlib
import graphlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from torch import fx

from graphwright_plugins.errors import BackendContractError
from graphwright_plugins.graphs.facts import GraphFacts, observe
from graphwright_plugins.protocol import Capabilities
from graphwright_plugins.supports import Part, Refusal, op_text, refusal
from graphwright_plugins.torch_compat import FakeTensorMode

from .node_roles import NodeRoles, Reason
from .union_find import UnionFind

LEFT_OUT: Final = "the backend's partitioner left it out"


@dataclass(frozen=True)
class PlannedPart:
    """One part of a cut graph."""

    on_backend: bool
    """Whether the backend compiles it; else the fallback does."""
    nodes: tuple[str, ...]
    """The names of its nodes, in order."""
    ops: tuple[str, ...]
    """What they call."""


@dataclass(frozen=True)
class PartitionPlan:
    """How a graph is to be cut, and why."""

    parts: tuple[PlannedPart, ...]
    """The parts in the order in which they run."""
    refusals: tuple[Refusal, ...]
    """The nodes that the backend doesn't get."""

    is_whole: bool = True
    """Whether the backend gets the graph as it is."""

    @property
    def on_backend(self) -> int:
        """How many parts the backend gets."""
        return sum(part.on_backend for part in self.parts)

    def __str__(self) -> str:
        if self.is_whole:
            return "the backend does the whole graph"
        lines = [f"{len(self.parts)} parts, {self.on_backend} of them on the backend"]
        lines += [
            f"  {number}. {'backend' if part.on_backend else 'fallback'}: {', '.join(part.ops)}"
            for number, part in enumerate(self.parts)
        ]
        lines += ["not on the backend:", *(f"  {entry}" for entry in self.refusals)] if self.refusals else []
        return "\n".join(lines)


@dataclass(frozen=True)
class PartitionRequest:
    """What is asked of a cut."""

    why_not: Reason
    """Why the backend can't do a call, or None."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    """What the backend can do with memory."""
    minimum_size: int = 1
    """The least number of calls in a part of the backend's."""
    chosen: Sequence[Part] | None = None
    """The parts, where the backend chose them itself."""
    name: str = ""
    """The backend's name, for messages."""


@dataclass(frozen=True)
class Cut:
    """A cut that was decided: what `cutting` carries out."""

    roles: NodeRoles
    parts: tuple[tuple[bool, tuple[fx.Node, ...]], ...]
    """For each part whether the backend does it, and its placed nodes in order."""
    reasons: Mapping[fx.Node, str]
    is_needed: bool
    """Whether the graph can't go to the backend as it is."""

    @property
    def plan(self) -> PartitionPlan:
        """The cut as plain data."""
        parts = tuple(
            PlannedPart(mine, tuple(node.name for node in nodes), tuple(map(op_text, nodes)))
            for mine, nodes in self.parts
        )
        return PartitionPlan(parts, self.refusals, not self.is_needed)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """The nodes that the backend doesn't get, in the graph's order."""
        nodes = [n for n in self.roles.placed if n in self.reasons and not self.roles.is_item(n)]
        return tuple(refusal(node, self.reasons[node]) for node in nodes)


def decide(
    graph: fx.GraphModule, example_inputs: Sequence[Any], fake_mode: FakeTensorMode, request: PartitionRequest
) -> Cut:
    """Decide how to cut a graph; the graph is not changed.

    Raises:
        BackendContractError: The parts that the backend chose can't be put in order.
    """
    facts = observe(graph, example_inputs, fake_mode)
    with _values_shown(graph, facts):
        return _Cutter(graph, facts, request).cut()


@contextlib.contextmanager
def _values_shown(graph: fx.GraphModule, facts: GraphFacts) -> Iterator[None]:
    """Show what nodes give, as `supports` is promised, where nobody has noted it: in a graph that no capture made."""
    shown = [n for n in graph.graph.nodes if n.op != "output" and not n.meta.keys() & {"val", "example_value"}]
    for node in shown:
        node.meta["example_value"] = facts.value(node)
    try:
        yield
    finally:
        for node in shown:
            del node.meta["example_value"]


class _Cutter:
    def __init__(self, graph: fx.GraphModule, facts: GraphFacts, request: PartitionRequest) -> None:
        self._request = request
        self._part_of = _parts_by_node(request)
        aliasing = request.capabilities.aliasing
        self.roles = NodeRoles(graph, facts, self._why_not, aliasing=aliasing)
        self._is_open = not aliasing and self._returns_shared_memory(graph)
        self._facts = facts
        self._owner = _owners(facts)
        self._nodes = self.roles.placed
        self._index = {node: index for index, node in enumerate(self._nodes)}
        self._edges = self._ordering_edges()
        self._groups = UnionFind(len(self._nodes))
        self.reasons: dict[fx.Node, str] = {}
        for node in self._nodes:
            reason = self.roles.why_not_here(node)
            if reason is None and not aliasing and self._touches(node) & self.roles.stuck:
                reason = "it works on memory whose views can't be made again, and the backend does no shared memory"
            if reason is not None:
                self.reasons[node] = reason

    def _why_not(self, node: fx.Node) -> str | None:
        if self._request.chosen is None:
            return self._request.why_not(node)
        return None if node in self._part_of else LEFT_OUT

    def cut(self) -> Cut:
        request, can = self._request, self._request.capabilities
        if self.reasons or request.minimum_size > 1 or request.chosen is not None or not can.mutation:
            self._tie()
            parts = self._scheduled()
            while self._refused_more(parts):
                parts = self._scheduled()
        else:
            parts = [(True, self._nodes)]
        found = tuple((mine, tuple(nodes)) for mine, nodes in parts if nodes)
        return Cut(self.roles, found, self.reasons, bool(self.reasons) or self._is_open or len(found) > 1)

    def _returns_shared_memory(self, graph: fx.GraphModule) -> bool:
        """Whether an output is an input, a view, or the same as another output."""
        outputs: list[fx.Node] = []
        fx.node.map_arg(graph.graph.output_node().args, outputs.append)
        shared = any(n.op == "placeholder" or n in self.roles.copied or self.roles.same_as(n) is not n for n in outputs)
        return shared or len(set(outputs)) < len(outputs)

    # ---------------------------------------------------------------- what belongs together

    def _tie(self) -> None:
        """Join nodes that can't be on two sides of a border."""
        join = self._groups.join
        for node, index in self._index.items():
            roots = [self._index[root] for root in self._roots(node)]
            if self.roles.is_item(node):
                join([index, *roots])
            join([index, *(self._index[r] for r in self._roots(node) if not self.roles.crosses(r))])
        for key in self.roles.stuck:
            touching = [i for node, i in self._index.items() if key in self._touches(node)]
            join(touching)
        for number in set(self._part_of.values()):
            join(self._index[n] for n, part in self._part_of.items() if part == number and n in self._index)
        self._join_circles()

    def _roots(self, node: fx.Node) -> list[fx.Node]:
        """The placed nodes that a node takes values from."""
        found = (root for argument in node.all_input_nodes for root in self.roles.roots(argument))
        return [root for root in found if root in self._index]

    def _touches(self, node: fx.Node) -> frozenset[int]:
        fact = self._facts.nodes[node]
        return fact.reads | fact.writes | fact.memory

    def _join_circles(self) -> None:
        """Join what lies between the nodes of a group with it; the backend's own parts must need none of that.

        Raises:
            BackendContractError: They do.
        """
        while True:
            try:
                graphlib.TopologicalSorter(self._group_edges()).prepare()
            except graphlib.CycleError as error:
                circle: list[int] = error.args[1]
                if self._request.chosen is not None:
                    names = ", ".join(sorted({self._nodes[index].name for index in circle}))
                    raise BackendContractError(
                        f"backend {self._request.name!r} chose parts of a graph that depend on each other in a circle, "
                        f"by data or by the order of effects: those with {names}"
                    ) from error
                self._groups.join(circle)
            else:
                return

    # ---------------------------------------------------------------- order

    def _ordering_edges(self) -> list[set[int]]:
        """For each node the nodes that it comes after: by data, memory, and the order of effects."""
        edges: list[set[int]] = [set() for _ in self._nodes]
        last_write: dict[int, int] = {}
        readers: dict[int, list[int]] = {}
        last_ordered: int | None = None
        for node, index in self._index.items():
            fact, before = self._facts.nodes[node], edges[index]
            before.update(self._index[root] for root in self._roots(node))
            for key in fact.reads:
                before.update({last_write[key]} if key in last_write else ())
            for key in fact.writes:
                before.update(readers.pop(key, ()), {last_write[key]} if key in last_write else ())
                last_write[key] = index
            for key in fact.reads - fact.writes:
                readers.setdefault(key, []).append(index)
            if fact.is_ordered:
                before.update(() if last_ordered is None else {last_ordered})
                last_ordered = index
            before.discard(index)
        return edges

    def _group_edges(self) -> dict[int, set[int]]:
        find = self._groups.find
        edges: dict[int, set[int]] = {find(index): set() for index in range(len(self._nodes))}
        for index, before in enumerate(self._edges):
            group = find(index)
            edges[group].update(other for b in before if (other := find(b)) != group)
        return edges

    def _sides(self) -> dict[int, bool]:
        """For each group whether the backend does it: all of its nodes, or none."""
        sides = {self._groups.find(index): True for index in range(len(self._nodes))}
        for node in self.reasons:
            sides[self._groups.find(self._index[node])] = False
        for node, index in self._index.items():
            if not sides[self._groups.find(index)] and node not in self.reasons:
                self.reasons[node] = "it can't be parted from nodes that the backend doesn't do"
        return sides

    def _scheduled(self) -> list[tuple[bool, list[fx.Node]]]:
        sides, edges = self._sides(), self._group_edges()
        orders = [_in_turns(edges, sides, first) for first in (True, False)]
        members: dict[int, list[int]] = {}
        for index in range(len(self._nodes)):
            members.setdefault(self._groups.find(index), []).append(index)
        parts: list[tuple[bool, list[fx.Node]]] = []
        for mine, groups in min(orders, key=len):
            apart = [[group] for group in groups] if mine and self._request.chosen is not None else [groups]
            for some in apart:
                parts.append((mine, [self._nodes[i] for i in sorted(i for group in some for i in members[group])]))
        return parts

    # ---------------------------------------------------------------- parts the backend should not get

    def _refused_more(self, parts: Sequence[tuple[bool, Sequence[fx.Node]]]) -> bool:
        """Give up parts, or nodes of parts, that the backend can't do or that are too small."""
        before = len(self.reasons)
        for mine, nodes in parts:
            if not mine:
                continue
            for node in nodes:
                reason = self._why_not_written(node, nodes)
                if reason is not None:
                    self.reasons[node] = reason
        if len(self.reasons) == before:
            self._refuse_small(parts)
        return len(self.reasons) > before

    def _refuse_small(self, parts: Sequence[tuple[bool, Sequence[fx.Node]]]) -> None:
        least = self._request.minimum_size
        for mine, nodes in parts:
            size = sum(not self.roles.is_item(node) for node in nodes)
            if mine and size < least:
                self.reasons |= dict.fromkeys(
                    nodes, f"its part would have {size} calls, and parts of fewer than {least} are not worth it"
                )

    def _why_not_written(self, node: fx.Node, part: Sequence[fx.Node]) -> str | None:
        """Why a node may not write to memory that comes from outside of its part."""
        writes = self._facts.nodes[node].writes
        if not writes:
            return None
        inside = set(part)
        foreign = {key for key in writes if self._owner.get(key) not in inside}
        if not foreign:
            return None
        if not self._request.capabilities.mutation:
            return "it writes to memory from outside its part, and the backend changes no inputs"
        outside = {root for n in part for a in n.all_input_nodes for root in self.roles.roots(a) if root not in inside}
        sharing = sorted(root.name for root in outside if foreign & self._facts.nodes[root].memory)
        if len(sharing) > 1:
            return f"it writes to memory that inputs of its part share: {', '.join(sharing)}"
        return None


def _owners(facts: GraphFacts) -> dict[int, fx.Node]:
    """The node that each piece of memory comes from."""
    owners: dict[int, fx.Node] = {}
    for node, fact in facts.nodes.items():
        for key in fact.memory:
            owners.setdefault(key, node)
    return owners


def _parts_by_node(request: PartitionRequest) -> dict[fx.Node, int]:
    found: dict[fx.Node, int] = {}
    for number, part in enumerate(request.chosen or ()):
        for node in part:
            if node in found:
                raise BackendContractError(f"backend {request.name!r} put the node {node.name} in two parts of a graph")
            found[node] = number
    return found


def _in_turns(edges: Mapping[int, set[int]], sides: Mapping[int, bool], first: bool) -> list[tuple[bool, list[int]]]:
    """The groups in an order that changes sides as rarely as can be, beginning with one side."""
    sorter = graphlib.TopologicalSorter(edges)
    sorter.prepare()
    waiting: dict[bool, list[int]] = {True: [], False: []}
    parts: list[tuple[bool, list[int]]] = []
    side = first
    while sorter.is_active():
        taken: list[int] = []
        while True:
            for group in sorter.get_ready():
                waiting[sides[group]].append(group)
            if not waiting[side]:
                break
            taken += waiting[side]
            sorter.done(*waiting[side])
            waiting[side] = []
        if taken:
            parts.append((side, taken))
        side = not side
    return parts
