"""Signatures of the parts of a cut graph: what the whole's signature says of a part's inputs and outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from graphwright_plugins.graphs.values import has_value, output_values
from graphwright_plugins.signature import (
    GraphKind,
    GraphSignature,
    InputKind,
    InputSignature,
    OutputSignature,
    attach_signature,
    groups_by_memory,
    input_signature,
    output_signatures,
)

from .cutting import CutGraph, CutPart, Value

_AS_CAPTURED = (GraphKind.CAPTURED, GraphKind.OTHER)


class PartSignatures:
    """Gives the parts of one graph their signatures.

    Args:
        cut: The graph in parts.
        whole: Its signature.
    """

    def __init__(self, cut: CutGraph, whole: GraphSignature) -> None:
        self._facts = cut.facts
        self._whole = whole
        self._input_of = {value: place for place, value in enumerate(cut.inputs)}
        self._output_of = _places_of_outputs(cut)

    def attach(self, part: CutPart, inputs: Sequence[Any], values: Sequence[Any], results: Sequence[Any]) -> None:
        """Attach the signature of a part.

        Args:
            part: The part.
            inputs: What it is compiled for, a fake or a number for each input.
            values: Its inputs in a run on fakes.
            results: What it gave there.
        """
        placeholders = part.module.graph.find_nodes(op="placeholder")
        groups = groups_by_memory([self._memory(value) for value in part.inputs])
        entries = tuple(
            self._input(value, node.name, example, self._memory(value) & part.writes, group)
            for value, node, example, group in zip(part.inputs, placeholders, inputs, groups, strict=True)
        )
        made = dict(zip(output_values(part.module), results, strict=True))
        outputs = output_signatures(part.module, placeholders, values, made)
        own_place = {self._input_of.get(value): place for place, value in enumerate(part.inputs)}
        known = tuple(
            self._output(value, output, own_place) for value, output in zip(part.outputs, outputs, strict=True)
        )
        signature = dataclasses.replace(self._whole, inputs=entries, outputs=known, part_of=self._whole)
        attach_signature(part.module, signature)

    def _memory(self, value: Value) -> frozenset[int]:
        return self._facts.nodes[value[0]].memory

    def _input(
        self, value: Value, name: str, example: Any, writes: frozenset[int], group: int | None
    ) -> InputSignature:
        place = self._input_of.get(value)
        if place is None:
            kind = InputKind.NUMBER if has_value(example) else InputKind.INTERMEDIATE
            return input_signature(name, example, kind, mutated=bool(writes), alias_group=group)
        known = self._whole.inputs[place]
        own = input_signature(name, example, known.kind)
        return dataclasses.replace(
            known,
            tensor=own.tensor,
            number=own.number,
            mutated=bool(writes),
            alias_group=group,
            original=place if self._whole.kind in _AS_CAPTURED else known.original,
        )

    def _output(self, value: Value, output: OutputSignature, own_place: dict[int | None, int]) -> OutputSignature:
        place = self._output_of.get(value)
        if place is None:
            return output
        known = self._whole.outputs[place]
        carried = known.carries_mutation_of
        return dataclasses.replace(
            output,
            original=place if self._whole.kind in _AS_CAPTURED else known.original,
            saved=known.saved,
            gradient_of=known.gradient_of,
            carries_mutation_of=None if carried is None else own_place.get(carried),
        )


def _places_of_outputs(cut: CutGraph) -> dict[Value, int]:
    """For what parts give, the first output of the whole that it is as it stands."""
    placeholders = cut.results.module.graph.find_nodes(op="placeholder")
    value_of = dict(zip(placeholders, cut.results.inputs, strict=True))
    places: dict[Value, int] = {}
    for place, result in enumerate(output_values(cut.results.module)):
        if result in value_of:
            places.setdefault(value_of[result], place)
    return places
