"""Graphs that take contiguous tensors: others are copied at each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from graphwright_plugins.errors import UnsupportedGraph
from graphwright_plugins.graphs.own_copy import own_copy
from graphwright_plugins.graphs.symbols import is_symbolic
from graphwright_plugins.signature import GraphSignature
from graphwright_plugins.torch_compat import FakeTensorMode

from .reshaped_signature import Reshaped, note_again, signature_before, unchanged


def with_contiguous_inputs(graph: fx.GraphModule, example_inputs: Sequence[Any], fake_mode: FakeTensorMode) -> Reshaped:
    """The graph for contiguous tensors.

    Args:
        graph: The graph; it is not changed.
        example_inputs: Its inputs on fakes.
        fake_mode: Their mode.

    Raises:
        UnsupportedGraph: The graph writes to an input that is not contiguous.
    """
    places = [i for i, value in enumerate(example_inputs) if _may_be_scattered(value)]
    if not places:
        return unchanged(graph, example_inputs)
    before = signature_before(graph, example_inputs)
    for place in places:
        if before.inputs[place].mutated:
            name = before.inputs[place].name
            raise UnsupportedGraph(
                f"the graph writes to its input {name}, which is not contiguous; the backend takes only such",
                node=name,
                reason="an input that is written to and is not contiguous",
            )
    inputs = list(example_inputs)
    with fake_mode:
        for place in places:
            inputs[place] = inputs[place].contiguous()
    own = own_copy(graph)
    every = range(len(inputs))
    note_again(own, inputs, fake_mode, _with_copies_anywhere(before, places), every)
    return Reshaped(own, inputs, every, _making_contiguous(places))


def _with_copies_anywhere(signature: GraphSignature, places: Sequence[int]) -> GraphSignature:
    """The signature, which doesn't expect a copy that is made at each call at one address."""
    inputs = list(signature.inputs)
    for place in places:
        inputs[place] = replace(inputs[place], static_address=False)
    return replace(signature, inputs=tuple(inputs))


def _may_be_scattered(value: Any) -> bool:
    """Whether a tensor is not contiguous, or may turn out not to be: nothing is asked of symbols, to bind none."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return False
    if any(map(is_symbolic, (*value.shape, *value.stride()))):
        return str(value.stride()) != str(torch.empty_like(value, memory_format=torch.contiguous_format).stride())
    return not value.is_contiguous()


def _making_contiguous(places: Sequence[int]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            values = list(inputs)
            for place in places:
                values[place] = values[place].contiguous()
            return function(*values)

        return call

    return wrap
