"""Signatures of the graphs that AOTAutograd makes of a captured one, from what it notes on their nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from torch import fx

from graphwright_plugins.signature import (
    GraphKind,
    GraphSignature,
    InputKind,
    InputSignature,
    OutputSignature,
    alias_groups,
    attach_signature,
    input_signature,
    output_signatures,
    share,
    written_operands,
)
from graphwright_plugins.torch_compat import AotPlace, aot_place, aot_places_of_outputs


class AotSignatures:
    """Gives each graph made of one captured graph its signature.

    Args:
        captured: The signature of the captured graph.
    """

    def __init__(self, captured: GraphSignature) -> None:
        self._captured = captured
        self._forward: GraphSignature | None = None
        self._shared: dict[str, Any] = {}

    def attach(self, kind: GraphKind, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
        """Attach the signature of a forward, backward or inference graph; a backward comes after its forward."""
        forward = self._forward if kind is GraphKind.BACKWARD else None
        inputs = self._inputs(graph, example_inputs, forward)
        outputs = self._outputs(graph, example_inputs, inputs, forward)
        signature = GraphSignature(kind, inputs, outputs, self._captured.extent, forward)
        attached = attach_signature(graph, signature)
        share(graph, self._shared)
        if kind is GraphKind.FORWARD:
            self._forward = attached

    def _inputs(
        self, graph: fx.GraphModule, example_inputs: Sequence[Any], forward: GraphSignature | None
    ) -> tuple[InputSignature, ...]:
        placeholders = graph.graph.find_nodes(op="placeholder")
        written = written_operands(graph, example_inputs)
        groups = alias_groups(example_inputs)
        saved = _saved_outputs(forward)
        found = []
        for index, (node, value) in enumerate(zip(placeholders, example_inputs, strict=True)):
            place = aot_place(node)
            facts: dict[str, Any] = {"mutated": index in written, "alias_group": groups[index]}
            facts["saved_output"] = saved.get(node.name)
            found.append(self._input(node.name, value, place, facts, forward))
        return tuple(found)

    def _input(
        self, name: str, value: Any, place: AotPlace, facts: dict[str, Any], forward: GraphSignature | None
    ) -> InputSignature:
        if place.kind == "input":
            known = self._captured.inputs[place.index]
            facts |= {"source": known.source, "target": known.target, "static_address": known.static_address}
            return input_signature(name, value, known.kind, original=place.index, **facts)
        if place.kind == "tangent":
            return input_signature(name, value, InputKind.TANGENT, tangent_of=_tangent_of(place.of, forward), **facts)
        kinds = {"rng_state": InputKind.RNG_STATE, "token": InputKind.TOKEN}
        kind = kinds.get(place.kind, InputKind.SAVED if forward is not None else None)
        return input_signature(name, value, kind, **facts)

    def _outputs(
        self,
        graph: fx.GraphModule,
        example_inputs: Sequence[Any],
        inputs: Sequence[InputSignature],
        forward: GraphSignature | None,
    ) -> tuple[OutputSignature, ...]:
        placeholders = graph.graph.find_nodes(op="placeholder")
        plain = output_signatures(graph, placeholders, example_inputs)
        positions = {entry.original: index for index, entry in enumerate(inputs) if entry.original is not None}
        found = []
        for output, place in zip(plain, aot_places_of_outputs(graph), strict=True):
            facts: dict[str, Any] = {}
            if place.kind == "output":
                facts["original"] = place.index
            elif place.kind == "mutation":
                facts["carries_mutation_of"] = positions.get(place.index)
            elif place.kind == "gradient":
                facts["gradient_of"] = place.index
            elif place.kind == "saved":
                facts["saved"] = True
            found.append(dataclasses.replace(output, **facts))
        return tuple(found)


def _saved_outputs(forward: GraphSignature | None) -> dict[str, int]:
    if forward is None:
        return {}
    return {output.name: index for index, output in enumerate(forward.outputs) if output.saved}


def _tangent_of(place: AotPlace | None, forward: GraphSignature | None) -> int | None:
    if place is None or forward is None:
        return None
    for index, output in enumerate(forward.outputs):
        if place.kind == "output" and output.original == place.index and not output.saved:
            return index
        carried = output.carries_mutation_of
        if place.kind == "mutation" and carried is not None and forward.inputs[carried].original == place.index:
            return index
    return None
