"""How each node of a graph behaves when the graph is cut: tied to others, copied to where it is used, or put in order.

* *Fixed*: nodes that give plain Python values on fakes; their values stand in their place.
* *State*: nodes that set state of the thread. They are dropped, and each part sets the state its nodes need.
* *Copied*: views of memory that the graph writes to, sizes, and what the graph holds. They are made again in each part
  that uses them, so that only the tensor that owns the memory crosses a border, and no write to one can miss another.
* *Placed*: all others.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from graphwright_plugins.graphs.facts import GraphFacts, NodeFacts, holds_tensor, tensors_in

_PLAIN = (
    bool, int, float, complex, str, type(None), type(Ellipsis),
    torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_CROSSING = (torch.Tensor, torch.SymInt, torch.SymFloat, int, float, type(None))

Reason = Callable[[fx.Node], str | None]


class NodeRoles:
    """The roles of a graph's nodes.

    Args:
        graph: The graph.
        facts: What its nodes do.
        why_not: Why the backend can't do a call, or None.
        aliasing: Whether values that cross borders may share memory where nothing writes to it.
    """

    def __init__(self, graph: fx.GraphModule, facts: GraphFacts, why_not: Reason, *, aliasing: bool = True) -> None:
        self.facts = facts
        self.fixed: dict[fx.Node, Any] = {}
        self.copied: set[fx.Node] = set()
        self.placed: list[fx.Node] = []
        self.reasons: dict[fx.Node, str | None] = {}
        calls = [(node, fact) for node, fact in facts.nodes.items() if node.op.startswith("call_")]
        self.written = frozenset(key for _, fact in calls for key in fact.writes)
        self.stuck = frozenset(key for _, f in calls if f.changes_metadata for key in (*f.writes, *f.memory))
        """Memory whose views can't be made again; all that has to do with it stays together."""
        self._aliasing = aliasing
        for node, fact in calls:
            if not self.is_item(node) and _is_hard_view(node, fact, self.written, facts):
                self.stuck |= fact.memory
        self.stuck |= _under_two_grad_modes([fact for _, fact in calls], self.written)
        for node in graph.graph.nodes:
            self._assign(node, why_not)

    def _assign(self, node: fx.Node, why_not: Reason) -> None:
        if node.op in ("placeholder", "output"):
            return
        fact = self.facts.nodes[node]
        if node.op == "get_attr":
            self.copied.add(node)
        elif fact.sets_state:
            self.fixed[node] = None
        elif _is_plain(fact.value) and not (fact.runs_kernels or fact.is_ordered or fact.writes):
            self.fixed[node] = fact.value
        else:
            reason = self.reasons[node] = None if self.is_item(node) else why_not(node)
            if self._can_be_copied(node, fact, reason):
                self.copied.add(node)
            else:
                self.placed.append(node)

    def is_item(self, node: fx.Node) -> bool:
        """Whether a node takes something out of a tuple, list or dict."""
        source = node.args[0] if node.args else None
        return (
            node.target in (operator.getitem, getattr)
            and isinstance(source, fx.Node)
            and isinstance(self.value(source), (tuple, list, dict))
        )

    def value(self, node: fx.Node) -> Any:
        """What a node gave on fakes."""
        return self.facts.value(node)

    def crosses(self, node: fx.Node) -> bool:
        """Whether a node's value may go from one part to another."""
        return all(isinstance(leaf, _CROSSING) for leaf in leaves(self.value(node)))

    def same_as(self, node: fx.Node) -> fx.Node:
        """The node of which this one gives the very tensor, as in-place operations do, and `contiguous` at times."""
        fact = self.facts.nodes[node]
        if isinstance(fact.value, torch.Tensor) and node not in self.copied:
            for argument in node.all_input_nodes:
                if self.value(argument) is fact.value:
                    return self.same_as(argument)
        return node

    def roots(self, node: fx.Node) -> Iterator[fx.Node]:
        """What a node is made of where it is copied: placed nodes and placeholders."""
        node = self.same_as(node)
        if node in self.copied:
            for argument in node.all_input_nodes:
                yield from self.roots(argument)
        elif node not in self.fixed:
            yield node

    def why_not_here(self, node: fx.Node) -> str | None:
        """Why the backend can't do a placed node, or a copied one that it would need for it."""
        reason = self.reasons[node]
        return reason or next(filter(None, map(self._why_not_copied, node.all_input_nodes)), None)

    def _why_not_copied(self, node: fx.Node) -> str | None:
        if node not in self.copied or node.op == "get_attr":
            return None
        reason = self.reasons[node]
        if reason is not None:
            return f"it needs {node.name}, a view of memory that is written to: {reason}"
        return next(filter(None, map(self._why_not_copied, node.all_input_nodes)), None)

    def _can_be_copied(self, node: fx.Node, fact: NodeFacts, reason: str | None) -> bool:
        if fact.writes or fact.is_ordered:
            return False
        if self.is_item(node) and node.args[0] not in self.copied:
            return False
        if not holds_tensor(fact.value):
            return reason is None and not fact.runs_kernels and _is_symbolic(fact.value)
        if not (fact.memory and fact.memory <= fact.reads) or fact.memory & self.stuck:
            return False
        return bool(fact.memory & self.written) or (not self._aliasing and reason is None)


def leaves(value: Any) -> Iterator[Any]:
    """What is in nested tuples and lists; a dict is a leaf."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def _is_hard_view(node: fx.Node, fact: NodeFacts, written: frozenset[int], facts: GraphFacts) -> bool:
    """Whether a node gives a view of memory that is written to, and can't be made again to get it.

    A detached one can't: autograd does not know it as a view, so that writes to it or to its base are not its own.
    """
    if not fact.memory & fact.reads & written or any(facts.value(a) is fact.value for a in node.all_input_nodes):
        return False
    detached = not any(tensor._is_view() for tensor in tensors_in(fact.value))
    return bool(fact.writes) or fact.is_ordered or detached


def _under_two_grad_modes(calls: Sequence[NodeFacts], written: frozenset[int]) -> frozenset[int]:
    """Memory whose views and writes are under both grad modes: autograd then asks when a view was made."""
    views = [fact for fact in calls if fact.memory & fact.reads & written and not fact.writes]
    found: set[int] = set()
    for key in {key for fact in views for key in fact.memory & written}:
        modes = {f.state.grad_enabled for f in calls if key in f.writes or (key in f.memory and key in f.reads)}
        found.update({key} if len(modes) > 1 else ())
    return frozenset(found)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return type(value) in (tuple, list, torch.Size) and all(map(_is_plain, value))
    return isinstance(value, _PLAIN)


def _is_symbolic(value: Any) -> bool:
    return all(isinstance(leaf, (*_SYMBOLIC, int, float)) for leaf in leaves(value))
