"""Whether a graph computes with floats that vary, so that symbolic arithmetic would give other numbers than floats do.

Symbolic expressions follow the rules of real numbers: `(n + 1e16) - 1e16` becomes `n`, and `n - n` becomes 0 where it
may be nan. One operation with a number that is neither 0 nor infinite comes out the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from graphwright_plugins.torch_compat import has_float_symbols

from .values import node_value


class SymbolicFloatsRefused(Exception):
    """A graph does with floats that vary what symbolic arithmetic would change: it is captured anew with fixed ones."""


def rearranges_floats(graph: fx.GraphModule) -> bool:
    """Whether more than one operation lies between an input that is a float and what is done with it.

    Args:
        graph: The graph, its values noted on the nodes; without notes nothing is known, and the answer is no.
    """
    depth: dict[fx.Node, int] = {}
    for node in graph.graph.nodes:
        value = node_value(node)
        if not isinstance(value, torch.SymFloat) or not has_float_symbols(value):
            continue
        depth[node] = _depth(node, depth)
        if depth[node] > 1:
            return True
    return False


def _depth(node: fx.Node, depth: Mapping[fx.Node, int]) -> int:
    """How many operations a float has gone through; one that symbolic arithmetic may drop counts as two."""
    if node.op == "placeholder":
        return 0
    varying = [depth.get(argument, 0) for argument in node.all_input_nodes]
    plain = all(not isinstance(argument, (int, float)) or _is_ordinary(argument) for argument in node.args)
    return 1 + max(varying, default=0) if plain and len(varying) == 1 else 2


def _is_ordinary(number: Any) -> bool:
    return number != 0 and math.isfinite(number)
