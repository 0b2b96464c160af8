"""Graphs that Inductor can't do as eager does, found before it compiles them.

* A reduction to the least element of 8-bit integers gives 0, where the vectors of its loop are not full.
* `any` of `uint8` is of `bool`; in eager it is of `uint8`.
* `argmin` and `argmax` of `bool` give a result; eager refuses them.
* A tensor with the negative bit, as the imaginary part of a conjugate has, is read without its sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins.graphs.values import node_value

_EIGHT_BITS: Final = frozenset({torch.int8, torch.uint8})
_WRONG: Final[Mapping[str, frozenset[torch.dtype]]] = {
    **dict.fromkeys(("min", "amin", "aminmax"), _EIGHT_BITS),
    "any": frozenset({torch.uint8}),
    **dict.fromkeys(("argmin", "argmax"), frozenset({torch.bool})),
}
"""Operations by name, and the dtypes of their first argument that they go wrong for."""


def beyond_inductor(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> str | None:
    """Say why Inductor can't do a graph as eager does, or None where nothing is known against it.

    Args:
        graph: The graph; it is not changed.
        example_inputs: Its inputs, on fakes.
    """
    placeholders = graph.graph.find_nodes(op="placeholder")
    for node, value in zip(placeholders, example_inputs, strict=True):
        if isinstance(value, torch.Tensor) and value.is_neg():
            return f"its input {node.name} has the negative bit, which its kernels do not read"
    values = dict(zip(placeholders, example_inputs, strict=True))
    for node in graph.graph.nodes:
        name = _name_of(node)
        value = _first_argument(node, values) if name in _WRONG else None
        if isinstance(value, torch.Tensor) and value.dtype in _WRONG[name]:
            return f"its {name} of {value.dtype} gives another result"
    return None


def _name_of(node: fx.Node) -> str:
    name: str = getattr(node.target, "__name__", str(node.target)) if node.op.startswith("call_") else ""
    return name.partition(".")[0]


def _first_argument(node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
    argument = node.args[0] if node.args else node.kwargs.get("input")
    return (values[argument] if argument in values else node_value(argument)) if isinstance(argument, fx.Node) else None
