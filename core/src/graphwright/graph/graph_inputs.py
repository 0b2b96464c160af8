"""The inputs of a graph: placeholders, and what they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from graphwright.graph.fake import layout_of
from graphwright.sources import Source
from graphwright.torch_compat import SymbolicLayout, tensor_version


@dataclass(eq=False)
class GraphInput:
    """A placeholder and the tensor it stands for."""

    node: fx.Node
    source: Source
    tensor: torch.Tensor = field(repr=False)
    fake: torch.Tensor
    layout: tuple[Any, ...]
    version: int
    requires_grad: bool
    symbols: SymbolicLayout | None = None

    def layout_changed(self) -> bool:
        """Whether the trace changed sizes, strides or storage."""
        return layout_of(self.fake) != self.layout

    def touched(self) -> bool:
        """Whether the fake is no longer what it was at entry."""
        return (
            tensor_version(self.fake) != self.version
            or self.fake.requires_grad != self.requires_grad
            or self.layout_changed()
        )


@dataclass(eq=False)
class NumberInput:
    """A placeholder and the number from outside that it stands for."""

    node: fx.Node
    source: Source
    fake: torch.SymInt | torch.SymFloat


def storage_groups(inputs: Sequence[GraphInput]) -> list[int]:
    """A group id for each input: two inputs have the same id when they share a storage."""
    groups: dict[Any, int] = {}
    ids: list[int] = []
    for entry in inputs:
        tensor = entry.tensor
        address = tensor.untyped_storage().data_ptr() if tensor.numel() else 0  # an empty view shares nothing
        key = (tensor.device, address) if address else id(entry)
        ids.append(groups.setdefault(key, len(groups)))
    return ids
