"""Symbolic numbers in a graph: the nodes that give them, made when an operation first needs one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from graphwright.shapes.algebra import Expr, carry_out, postfix
from graphwright.torch_compat import SYMBOLIC_TYPES, expression_of, is_unbacked, simplified, varies

if TYPE_CHECKING:
    from graphwright.graph.output_graph import OutputGraph

Argument = fx.Node | int | float | bool


class NumberNodes:
    """The nodes of one graph, and of the bodies in it, that compute numbers; equal expressions share a node.

    Args:
        node_of_symbol: makes the node that gives the value of a symbol from outside.
    """

    def __init__(self, output: OutputGraph, node_of_symbol: Callable[[Any], fx.Node]) -> None:
        self._output = output
        self._node_of_symbol = node_of_symbol
        self._known: dict[tuple[fx.Graph, Expr], fx.Node] = {}
        self._sizes: dict[Any, tuple[fx.Node, int]] = {}

    def argument(self, number: Any) -> Argument:
        """A symbolic number as an argument of a node: a node, or a plain number where it is fixed by now.

        Raises:
            NotExpressible: no node can compute it.
        """
        expr = simplified(self._output.shape_env, expression_of(number))
        known = self._find(expr)
        if known is not None:
            return known
        result: Argument = carry_out(postfix(expr), lambda value: value, self._symbol, self._operation)
        return result

    def know(self, number: Any, node: fx.Node) -> None:
        """Record the node that gives a number."""
        self._known.setdefault((node.graph, expression_of(number)), node)

    def know_sizes(self, fake: torch.Tensor, node: fx.Node) -> None:
        """Record a tensor some of whose sizes are known only when the graph runs."""
        for dim, size in enumerate(fake.shape):
            if varies(size) and is_unbacked(size):
                self._sizes.setdefault(expression_of(size), (node, dim))

    def _find(self, expr: Expr) -> fx.Node | None:
        for graph in (self._output.bodies.graph, self._output.graph):
            known = self._known.get((graph, expr))
            if known is not None:
                return known
        return None

    def _symbol(self, symbol: Any) -> fx.Node:
        known = self._find(symbol)
        if known is None:
            known = self._size(symbol) or self._node_of_symbol(symbol)
            self._known[known.graph, symbol] = known
        return known

    def _size(self, symbol: Any) -> fx.Node | None:
        if symbol not in self._sizes:
            return None
        node, dim = self._sizes[symbol]
        size = node.meta["example_value"].size(dim)
        return self._output.create_node("call_method", "size", (node, dim), {}, size, removable=True)

    def _operation(self, function: Callable[..., Any], *arguments: Any) -> Argument:
        values = [a.meta["example_value"] if isinstance(a, fx.Node) else a for a in arguments]
        result: Any = function(*values)
        if not isinstance(result, SYMBOLIC_TYPES):
            plain: Argument = result
            return plain
        known = self._find(expression_of(result))
        if known is None:
            known = self._output.create_node("call_function", function, arguments, {}, result, removable=True)
            self.know(result, known)
        return known
