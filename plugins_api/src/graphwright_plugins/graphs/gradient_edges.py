"""Where tensors are in the graph of gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import torch

Edge: TypeAlias = tuple[Any, int]
"""A node of the graph of gradients, and the number of its gradient. It holds while its node is referred to."""


def edges_of(values: Iterable[Any]) -> dict[Edge, int]:
    """The edge that the gradient of each tensor among these arrives by, with the index of the tensor.

    None is looked for while no gradients are recorded.
    """
    found: dict[Edge, int] = {}
    if not torch.is_grad_enabled():
        return found
    for index, value in enumerate(values):
        if isinstance(value, torch.Tensor) and value.requires_grad:
            edge = torch.autograd.graph.get_gradient_edge(value)
            found[(edge.node, edge.output_nr)] = index
    return found
