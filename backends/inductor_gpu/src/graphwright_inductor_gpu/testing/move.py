"""Moves graphs from the CPU to the GPU: devices in their arguments, their inputs, and what is known of each result."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from graphwright_plugins.torch_compat import as_fake

from .errors import HarnessError
from .torch_compat import FakeTensorMode

GPU = torch.device("cuda", 0)


def moved_program(
    graph: fx.GraphModule, example_inputs: Sequence[Any], mode: FakeTensorMode
) -> tuple[fx.GraphModule, list[Any]]:
    """A captured graph as it would be, had it been captured on CUDA tensors: another one, and fakes for its inputs.

    Every mention of the CPU becomes one of the GPU; what is made on no device in particular stays on the CPU.

    Raises:
        HarnessError: An input is not on the CPU, two share memory, or the graph holds a tensor.
    """
    inputs = [as_fake(mode, value) for value in example_inputs]
    check_movable(graph, inputs)
    own = copy.deepcopy(graph.graph)
    _move_devices(own)
    for node in own.nodes:
        node.meta = {}  # says what there was on the CPU
    return fx.GraphModule(graph, own), [_moved(value, mode) for value in inputs]


def move_lowered(graph: fx.GraphModule, example_inputs: Sequence[Any], mode: FakeTensorMode) -> list[Any]:
    """Change a graph of AOTAutograd's in place to one on the GPU.

    Returns:
        Fakes on the GPU for its inputs.
    """
    inputs = [_moved(value, mode) for value in example_inputs]
    _move_devices(graph.graph)
    graph.recompile()
    FakeTensorProp(graph, mode).propagate_dont_convert_inputs(*inputs)
    return inputs


def check_movable(graph: fx.GraphModule, inputs: Sequence[Any]) -> None:
    """Require that the graph and its inputs can be moved.

    Raises:
        HarnessError: They cannot.
    """
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    if any(tensor.device.type != "cpu" for tensor in tensors):
        raise HarnessError("only a graph captured on CPU tensors can be moved to the GPU")
    if len({tensor.untyped_storage() for tensor in tensors}) != len(tensors):
        raise HarnessError("two inputs share memory, which fakes on the GPU would not; pass tensors of their own")
    held = sorted(_tensors_in(graph))
    if held:
        raise HarnessError(f"the graph holds tensors, {', '.join(held)}, which are on the CPU; pass them as inputs")


def _move_devices(graph: fx.Graph) -> None:
    for node in graph.nodes:
        node.args = map_aggregate(node.args, _moved_device)
        node.kwargs = map_aggregate(node.kwargs, _moved_device)


def _moved_device(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cpu":
        return GPU
    return "cuda" if isinstance(value, str) and value in ("cpu", "cpu:0") else value


def _moved(value: Any, mode: FakeTensorMode) -> Any:
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
        return value
    with mode:
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=GPU)


def _tensors_in(graph: fx.GraphModule) -> Iterator[str]:
    for node in graph.graph.find_nodes(op="get_attr"):
        value: Any = graph
        for name in str(node.target).split("."):
            value = getattr(value, name)
        if isinstance(value, torch.Tensor):
            yield str(node.target)
