"""Why a graph of operators cannot be recorded as a CUDA graph. Nothing here needs a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import fx

from graphwright_plugins import GraphSignature

from .operators import is_random, is_view, tensors_of, value_of, why_not_operator
from .torch_compat import OpOverload, depends_on_values

_BETWEEN_DEVICES: Final = frozenset({"aten::_to_copy", "aten::copy", "aten::copy_", "aten::to", "prims::device_put"})


@dataclass(frozen=True)
class Refusal:
    """What keeps a graph from being recorded."""

    node: str
    """The node, or the input."""
    reason: str
    """What is the matter with it, as a clause."""
    remedy: str
    """What the user can do about it."""

    def __str__(self) -> str:
        return f"{self.node} {self.reason}. {self.remedy}"


@dataclass(frozen=True)
class Graph:
    """A graph of operators as the rules see it."""

    nodes: Sequence[fx.Node]
    signature: GraphSignature
    device_type: str
    """The type of the devices that can be recorded on: `"cuda"`."""

    @property
    def devices(self) -> list[torch.device]:
        """The devices of this type on which it has tensors, each once."""
        values = (tensor for node in self.nodes for tensor in tensors_of(value_of(node)))
        return list(dict.fromkeys(value.device for value in values if value.device.type == self.device_type))


def look_at(module: fx.GraphModule, signature: GraphSignature, device_type: str) -> Graph:
    """A graph of operators, its values on fakes noted on its nodes."""
    for node in module.graph.find_nodes(op="get_attr"):
        constant = getattr(module, node.target, None)
        if isinstance(constant, torch.Tensor):
            node.meta.setdefault("val", constant)
    return Graph(list(module.graph.nodes), signature, device_type)


def is_worth_recording(graph: Graph) -> bool:
    """Whether a graph launches anything: one that only hands on inputs, views and numbers does not."""
    return any(
        node.op == "call_function" and not is_view(node) and any(True for _ in tensors_of(value_of(node)))
        for node in graph.nodes
    )


def why_not_recordable(graph: Graph) -> Refusal | None:
    """The first thing in a graph that cannot be recorded, or None."""
    return (
        _mutated_input(graph)
        or _operator(graph)
        or _several_devices(graph)
        or next(filter(None, (_host_value(node, graph) for node in graph.nodes)), None)
        or next(filter(None, (_odd_tensor(node, graph) for node in graph.nodes)), None)
    )


def _mutated_input(graph: Graph) -> Refusal | None:
    for entry in graph.signature.inputs:
        if entry.mutated and not entry.static_address:
            return Refusal(
                f"its input {entry.source or entry.name}",
                "is written to, and is no tensor of a fixed address: a replay would write elsewhere",
                "Make it a buffer of the module, or return the new value.",
            )
    return None


def _operator(graph: Graph) -> Refusal | None:
    for node in graph.nodes:
        if node.op == "call_function":
            reason = why_not_operator(node)
            if reason is None and depends_on_values(value_of(node)):
                reason = "gives a result whose size depends on values"
            if reason is not None:
                return Refusal(_described(node, graph), reason, "Take it out of the compiled function.")
        elif node.op in ("call_method", "call_module"):
            return Refusal(_described(node, graph), "is a call into Python", "Report this: operators were expected.")
    return None


def _several_devices(graph: Graph) -> Refusal | None:
    devices = graph.devices
    if len(devices) < 2:
        return None
    names = " and ".join(map(str, devices))
    return Refusal("it", f"has tensors on {names}; a recording is of one device", "Compile the parts one by one.")


def _host_value(node: fx.Node, graph: Graph) -> Refusal | None:
    """Tensors elsewhere: fine are inputs that nobody uses, and single numbers that the device's operators read."""
    if not any(value.device.type != graph.device_type for value in tensors_of(value_of(node))):
        return None
    if node.op == "placeholder" and not node.users:
        return None
    device = next(v.device for v in tensors_of(value_of(node)) if v.device.type != graph.device_type)
    remedy = f"Move it to a {graph.device_type} device."
    if device.type != "cpu" or any(value.dim() for value in tensors_of(value_of(node))):
        return Refusal(_described(node, graph), f"is on the device {device}, where nothing can be recorded", remedy)
    if node.op == "call_function" and not _is_constant(node):
        return Refusal(_described(node, graph), f"is computed on the {device}, which a replay would not repeat", remedy)
    for user in node.users:
        moves = isinstance(user.target, OpOverload) and user.target._schema.name in _BETWEEN_DEVICES
        if user.op == "output" or moves:
            return Refusal(_described(node, graph), f"is a number on the {device} that leaves it", remedy)
    return None


def _is_constant(node: fx.Node) -> bool:
    """Whether a node gives the same in every call."""
    if node.op == "placeholder" or is_random(node):
        return False
    return node.op == "get_attr" or all(map(_is_constant, node.all_input_nodes))


def _odd_tensor(node: fx.Node, graph: Graph) -> Refusal | None:
    for value in tensors_of(value_of(node)):
        if value.layout is not torch.strided:
            return Refusal(_described(node, graph), f"has the layout {value.layout}", "Use strided tensors.")
    return None


def _described(node: fx.Node, graph: Graph) -> str:
    if node.op == "placeholder":
        entry = next((entry for entry in graph.signature.inputs if entry.name == node.name), None)
        return f"its input {(entry.source if entry else '') or node.name}"
    return f"its constant {node.name}" if node.op == "get_attr" else f"the node {node.name} ({node.target})"
