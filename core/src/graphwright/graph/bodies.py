"""Graphs inside the graph: the bodies of functions that operations such as `vmap`, `checkpoint` and `cond` take.

While a body is open, new nodes go into its graph. What they use of the graphs around becomes a placeholder of the body,
and an operand of the node that holds the body: it is *lifted*.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, NamedTuple

import torch
from torch import fx

from graphwright.exc import NotProxyable
from graphwright.graph.dead_nodes import remove_dead_nodes
from graphwright.graph.placeholders import after_placeholder
from graphwright.torch_compat import storage_of_innermost


class ClosedBody(NamedTuple):
    """A finished body.

    Attributes:
        module: takes its arguments, then what was lifted.
        operands: the nodes of the graphs around that were lifted.
        writes_outside: whether it changes a tensor that it did not make itself.
    """

    module: fx.GraphModule
    operands: tuple[fx.Node, ...]
    writes_outside: bool


class _Holder:
    """A graph under construction, and the bodies that its nodes hold."""

    def __init__(self, graph: fx.Graph) -> None:
        self.graph = graph
        self.root = torch.nn.Module()
        self.bodies = 0
        self.arguments: list[fx.Node] = []
        self.lifted: dict[fx.Node, fx.Node] = {}
        self.written: list[torch.Tensor] = []
        self.last_placeholder: fx.Node | None = None

    def placeholder(self, name: str, fake: Any) -> fx.Node:
        with after_placeholder(self.graph, self.last_placeholder):
            node = self.graph.create_node("placeholder", name, (), {}, name=name)
        node.target = node.name
        node.meta["example_value"] = fake
        self.last_placeholder = node
        return node


class Bodies:
    """The stack of open bodies over the graph of the frame."""

    def __init__(self, graph: fx.Graph) -> None:
        self._stack = [_Holder(graph)]

    @property
    def graph(self) -> fx.Graph:
        """The graph that new nodes go into."""
        return self._stack[-1].graph

    @property
    def root(self) -> torch.nn.Module:
        """The module that holds the bodies which the nodes of the current graph refer to."""
        return self._stack[-1].root

    def any_open(self) -> bool:
        """Whether new nodes go into a body."""
        return len(self._stack) > 1

    def open(self) -> None:
        """Begin a body inside the current graph."""
        self._stack.append(_Holder(fx.Graph()))

    def abandon(self) -> None:
        """Drop the innermost body."""
        self._stack.pop()

    def argument(self, fake: torch.Tensor) -> fx.Node:
        """A new argument of the innermost body; all of them are made before anything is lifted."""
        holder = self._stack[-1]
        node = holder.placeholder(f"arg_{len(holder.arguments)}", fake)
        holder.arguments.append(node)
        return node

    def lifted(self, value: Any) -> Any:
        """Arguments of a new node, with each node of a graph around replaced by a placeholder of the current one."""
        return fx.node.map_arg(value, self._lift) if self.any_open() else value

    def _lift(self, node: fx.Node) -> fx.Node:
        holder = self._stack[-1]
        if node.graph is holder.graph:
            return node
        known = holder.lifted.get(node)
        if known is not None:
            return known
        if not any(node.graph is outer.graph for outer in self._stack):
            raise NotProxyable("a tensor made in the body of a function transform is used after the transform ended")
        made = holder.lifted[node] = holder.placeholder(node.name, node.meta["example_value"])
        return made

    def note_written(self, tensors: Sequence[torch.Tensor]) -> None:
        """Record that nodes of the open bodies change these tensors."""
        for holder in self._stack[1:]:
            holder.written.extend(tensors)

    def close(self, result: Any, removable: Set[fx.Node]) -> ClosedBody:
        """End the innermost body with what it returns."""
        result = self.lifted(result)
        holder = self._stack.pop()
        holder.graph.output(result)
        remove_dead_nodes(holder.graph, removable)
        writes_outside = _writes_outside(holder)
        for outer, inner in list(holder.lifted.items()):
            if not inner.users:
                holder.graph.erase_node(inner)
                del holder.lifted[outer]
        for node in holder.graph.nodes:
            # Values under a transform mean nothing once it has ended; nor may they keep user code alive.
            node.meta.pop("example_value", None)
        module = fx.GraphModule(holder.root, holder.graph, class_name="Body")
        return ClosedBody(module, tuple(holder.lifted), writes_outside)

    def attach(self, body: fx.GraphModule) -> str:
        """Make a body an attribute of the module of the current graph; its name there."""
        holder = self._stack[-1]
        name = f"body_{holder.bodies}"
        holder.bodies += 1
        setattr(holder.root, name, body)
        return name


def _writes_outside(holder: _Holder) -> bool:
    outside = {_key(node.meta["example_value"]) for node in (*holder.arguments, *holder.lifted.values())}
    return any((key := _key(tensor)) is None or key in outside for tensor in holder.written)


def _key(value: Any) -> int | None:
    return storage_of_innermost(value) if isinstance(value, torch.Tensor) else None


def body_modules(module: fx.GraphModule) -> Sequence[fx.GraphModule]:
    """A graph module and the bodies in it, at all depths."""
    return [m for m in module.modules() if isinstance(m, fx.GraphModule)]
