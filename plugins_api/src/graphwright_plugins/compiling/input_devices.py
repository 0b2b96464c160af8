"""Keeps graphs with inputs on other devices from a backend that says which it compiles for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from graphwright_plugins.errors import UnsupportedGraph
from graphwright_plugins.protocol import Backend
from graphwright_plugins.signature import signature_of


def inputs_elsewhere(backend: Backend, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> UnsupportedGraph | None:
    """The error for a graph that has inputs on devices which the backend doesn't list; None where all are fine.

    A single number on the CPU is fine beside tensors that are on listed devices: eager takes it for a number. So are
    tensors on `meta`, which hold nothing.
    """
    listed = backend.capabilities.devices
    if listed is None:
        return None
    tensors = {
        i: value for i, value in enumerate(example_inputs) if isinstance(value, torch.Tensor) and not value.is_meta
    }
    elsewhere = [i for i, tensor in tensors.items() if tensor.device.type not in listed]
    if len(elsewhere) < len(tensors):
        elsewhere = [i for i in elsewhere if tensors[i].device.type != "cpu" or tensors[i].dim() > 0]
    if not elsewhere:
        return None
    entries = signature_of(graph, example_inputs).inputs
    shown = [f"{entries[i].source or entries[i].name} on {tensors[i].device}" for i in elsewhere]
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    told = ", ".join(sorted(listed)) or "no device"
    reason = (
        f"the graph has inputs elsewhere ({', '.join(shown[:3])}{more}); backend {backend.name!r} compiles for {told}"
    )
    return UnsupportedGraph(reason, node=entries[elsewhere[0]].name, reason=reason)
