"""What nodes of a graph give, on fakes, and which memory that is."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from graphwright_plugins.torch_compat import is_operator, is_transformed

from .symbols import is_symbolic


def node_value(node: fx.Node) -> Any:
    """What a node gives, on fakes: noted by capture as `example_value`, by AOTAutograd as `val`; None if by neither."""
    return node.meta["val"] if "val" in node.meta else node.meta.get("example_value")


def output_values(graph: fx.GraphModule) -> tuple[Any, ...]:
    """The nodes and literals that a graph returns, in order; one that returns no tuple has one."""
    results: Any = graph.graph.output_node().args[0]
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def has_value(value: object) -> bool:
    """Whether a value is a number, fixed or symbolic."""
    return isinstance(value, (bool, int, float)) or is_symbolic(value)


def storages_of(value: Any) -> Iterator[int]:
    """What identifies the memory of the tensors in a value."""
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided and not is_transformed(value):  # which has no memory of its own
            yield value.untyped_storage()._cdata
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from storages_of(item)


def written_by_operators(graph: fx.GraphModule, values: Sequence[Any]) -> set[fx.Node] | None:
    """The placeholders that a graph of operators writes to, themselves or through a view; None for any other graph.

    Args:
        graph: The graph, its nodes' values noted.
        values: The values of the placeholders, on fakes.
    """
    placeholders = graph.graph.find_nodes(op="placeholder")
    holders: dict[int, set[fx.Node]] = {}
    for node, value in zip(placeholders, values, strict=True):
        for key in storages_of(value):
            holders.setdefault(key, set()).add(node)
    written: set[fx.Node] = set()
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output") or node.target is operator.getitem:
            continue
        if node.op != "call_function" or not is_operator(node.target):
            return None
        for target in _written_arguments(node):
            written.update({target} & set(placeholders))
            for key in storages_of(node_value(target)):
                written.update(holders.get(key, ()))
    return written


def _written_arguments(node: fx.Node) -> Iterator[fx.Node]:
    schema = getattr(node.target, "_schema", None)
    for position, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.is_write:
            value = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
            yield from _nodes_in(value)


def _nodes_in(value: Any) -> Iterator[fx.Node]:
    if isinstance(value, fx.Node):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _nodes_in(item)
