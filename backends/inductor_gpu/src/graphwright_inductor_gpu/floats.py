"""Floats that vary between calls, as inputs of a graph: held in tensors, since Inductor's kernels take no others.

Inductor generates code for symbolic ints. A symbolic float it takes only where the graph itself reads it from a tensor.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from .torch_compat import FakeTensorMode


class HeldFloats(NamedTuple):
    """A graph whose symbolic float inputs are tensors without dimensions."""

    graph: fx.GraphModule
    example_inputs: list[Any]
    places: tuple[int, ...]
    """Which inputs these are."""


def hold_floats(graph: fx.GraphModule, example_inputs: Sequence[Any], fake_mode: FakeTensorMode) -> HeldFloats:
    """The graph, taking its symbolic floats in tensors: another one, unless there are none."""
    places = _symbolic_floats(example_inputs)
    inputs = list(example_inputs)
    if not places:
        return HeldFloats(graph, inputs, ())
    graph = _copy(graph)
    placeholders = graph.graph.find_nodes(op="placeholder")
    with graph.graph.inserting_before(placeholders[-1].next):
        for place in places:
            with fake_mode:
                inputs[place] = torch.empty((), dtype=torch.float64, device="cpu")
            number = graph.graph.call_method("item", (placeholders[place],))
            placeholders[place].replace_all_uses_with(number, delete_user_cb=lambda user, own=number: user is not own)
    graph.recompile()
    return HeldFloats(graph, inputs, places)


def fix_floats(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> HeldFloats:
    """The graph with its symbolic floats made constants: the shape environment notes that it serves these alone."""
    graph, inputs = _copy(graph), list(example_inputs)
    placeholders = graph.graph.find_nodes(op="placeholder")
    for place in _symbolic_floats(example_inputs):
        inputs[place] = float(inputs[place])
        placeholders[place].replace_all_uses_with(inputs[place])
    graph.recompile()
    return HeldFloats(graph, inputs, ())


def holding_floats(function: Callable[..., Any], places: Sequence[int]) -> Callable[..., Any]:
    """The function, taking floats at these places, which it is given in tensors."""

    def call(*inputs: Any) -> Any:
        values = list(inputs)
        for place in places:
            values[place] = torch.tensor(values[place], dtype=torch.float64, device="cpu")
        return function(*values)

    return call


def _copy(graph: fx.GraphModule) -> fx.GraphModule:
    return fx.GraphModule(graph, copy.deepcopy(graph.graph))


def _symbolic_floats(example_inputs: Sequence[Any]) -> tuple[int, ...]:
    return tuple(place for place, value in enumerate(example_inputs) if isinstance(value, torch.SymFloat))


def reads_numbers(graph: fx.GraphModule) -> bool:
    """Whether a graph reads a number off a tensor, by `item` or what comes to the same."""
    reading = ("item", "_local_scalar_dense", "tolist")
    names = (getattr(node.target, "__name__", str(node.target)) for node in graph.graph.nodes)
    return any(name.startswith(reading) for name in names)
