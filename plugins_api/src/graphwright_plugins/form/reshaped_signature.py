"""Keeps a graph's noted values and its signature true after the framework has changed the graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from graphwright_plugins.graphs.own_copy import own_copy
from graphwright_plugins.graphs.symbols import described
from graphwright_plugins.graphs.unused_results import fresh_inputs, values_of_nodes
from graphwright_plugins.signature import (
    GraphSignature,
    InputSignature,
    attach_signature,
    attached_signature,
    derived_signature,
    output_signatures,
    tensor_spec,
)
from graphwright_plugins.torch_compat import FakeTensorMode


@dataclasses.dataclass(frozen=True)
class Reshaped:
    """A graph made of another one, and how to call what is compiled of it as the other one is called."""

    graph: fx.GraphModule
    """The graph."""
    example_inputs: list[Any]
    """A fake or a number for each of its inputs."""
    kept: Sequence[int]
    """Which inputs of the other graph these are."""
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    """Makes of the compiled graph a function in place of the other graph; None where the two are called alike."""


def unchanged(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Reshaped:
    """A graph as it is."""
    return Reshaped(graph, list(example_inputs), range(len(example_inputs)))


def taking(kept: Sequence[int]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a function be called with more inputs than it takes: those at these positions are its own."""
    positions = tuple(kept)

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            return function(*[inputs[i] for i in positions])

        return call

    return wrap


def signature_before(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> GraphSignature:
    """The signature of a graph that is going to change."""
    return attached_signature(graph) or derived_signature(graph, example_inputs)


def with_signature(graph: fx.GraphModule, example_inputs: Sequence[Any], fake_mode: FakeTensorMode) -> fx.GraphModule:
    """The graph, with a signature and with values noted on its nodes: itself, if it has them from capture."""
    if attached_signature(graph) is not None:
        return graph
    own = own_copy(graph)
    note_again(own, example_inputs, fake_mode, derived_signature(graph, example_inputs), range(len(example_inputs)))
    return own


def note_again(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    fake_mode: FakeTensorMode,
    before: GraphSignature,
    inputs_kept: Sequence[int],
    outputs_kept: Sequence[int] | None = None,
) -> None:
    """Run a changed graph on fakes, and note its nodes' values and its signature.

    Args:
        graph: The changed graph.
        example_inputs: A fake or a number for each of its inputs.
        fake_mode: The mode of the fakes.
        before: The signature before the change.
        inputs_kept: For each input which one it was.
        outputs_kept: For each output which one it was, -1 for a new one; None where they are what they were.
    """
    graph.recompile()
    placeholders = graph.graph.find_nodes(op="placeholder")
    copies = fresh_inputs(example_inputs, fake_mode)
    values = values_of_nodes(graph, copies, fake_mode)
    key = "val" if any("val" in node.meta for node in graph.graph.nodes) else "example_value"
    for node, value in values.items():
        if node.op != "output":
            node.meta[key] = value
    outputs = output_signatures(graph, placeholders, copies)
    for node, example in zip(placeholders, example_inputs, strict=True):
        node.meta[key] = example
    inputs = tuple(_input(before.inputs[old], value) for old, value in zip(inputs_kept, example_inputs, strict=True))
    position = {old: new for new, old in enumerate(inputs_kept)}
    old_outputs = range(len(outputs)) if outputs_kept is None else outputs_kept
    known = tuple(
        dataclasses.replace(output, **_facts(before, old, position))
        for output, old in zip(outputs, old_outputs, strict=True)
    )
    attach_signature(graph, dataclasses.replace(before, inputs=inputs, outputs=known))


def _input(entry: InputSignature, value: Any) -> InputSignature:
    if entry.tensor is not None:
        return dataclasses.replace(entry, tensor=tensor_spec(value))
    return dataclasses.replace(entry, number=None if value is None else described(value))


def _facts(before: GraphSignature, old: int, position: Mapping[int, int]) -> dict[str, Any]:
    if old < 0:
        return {}
    output = before.outputs[old]
    carried = output.carries_mutation_of
    return {
        "original": output.original,
        "saved": output.saved,
        "gradient_of": output.gradient_of,
        "carries_mutation_of": None if carried is None else position.get(carried),
    }
