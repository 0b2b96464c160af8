"""What a capture knows of a graph's inputs and outputs, in the terms of the plugin contract."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from graphwright.dim_marks import has_static_address
from graphwright.sources import Source
from graphwright_plugins import Extent, GraphKind, GraphSignature, InputKind, InputSignature
from graphwright_plugins.signature import input_signature, output_signatures

_STATE_TABLES = {"_parameters": InputKind.PARAMETER, "_buffers": InputKind.BUFFER}
_IN_MODULE = re.compile(r"\._(?:modules|parameters|buffers)\['([^']*)'\]")


class Frame(NamedTuple):
    """What a graph was captured from."""

    arguments: Sequence[Any] = ()
    """The values of the argument slots, as far as they are known."""
    extent: Extent | None = None
    """Which part of the program the graph covers; None where nobody knows."""


def graph_signature(
    module: fx.GraphModule,
    inputs: Sequence[tuple[str, Source, torch.Tensor | None]],
    example_inputs: Sequence[Any],
    written: Collection[int],
    groups: Sequence[int],
    frame: Frame,
) -> GraphSignature:
    """The signature of a finished graph.

    Args:
        module: The graph, its placeholders' values as they are at entry.
        inputs: For each placeholder its name, where it comes from, and the tensor of this call; None for a number.
        example_inputs: A fake or symbolic number for each.
        written: The positions of the inputs that the graph changes, aliases included.
        groups: For each input a number that those share whose memory is the same.
        frame: The frame that was captured.
    """
    shared = {group for group in groups if list(groups).count(group) > 1}
    entries = []
    for position, ((name, source, tensor), example) in enumerate(zip(inputs, example_inputs, strict=True)):
        group = groups[position] if groups[position] in shared else None
        entries.append(_input(name, source, tensor, example, frame, mutated=position in written, alias_group=group))
    placeholders = module.graph.find_nodes(op="placeholder")
    outputs = output_signatures(module, placeholders, example_inputs)
    return GraphSignature(GraphKind.CAPTURED, tuple(entries), outputs, frame.extent)


def _input(
    name: str, source: Source, tensor: torch.Tensor | None, example: Any, frame: Frame, **facts: Any
) -> InputSignature:
    text = in_user_terms(source)
    if tensor is None:
        return input_signature(name, example, InputKind.NUMBER, source=text)
    kind = _kind(source, tensor, frame.arguments)
    stays = kind in (InputKind.PARAMETER, InputKind.BUFFER) or has_static_address(tensor)
    return input_signature(name, example, kind, source=text, target=target_of(source), static_address=stays, **facts)


def _kind(source: Source, tensor: torch.Tensor, arguments: Sequence[Any]) -> InputKind:
    steps = list(source.path())
    table = _table_of(steps)
    if isinstance(tensor, torch.nn.Parameter) or table is InputKind.PARAMETER:
        return InputKind.PARAMETER
    if table is not None or isinstance(tensor, torch.nn.Buffer):
        return InputKind.BUFFER
    root = steps[0]
    holder = arguments[root.key] if root.accessor == "local" and root.key < len(arguments) else None
    of_module = isinstance(holder, torch.nn.Module) or _IN_MODULE.search(str(source))
    return InputKind.CONSTANT if root.accessor != "local" or of_module else InputKind.USER_INPUT


def _table_of(steps: Sequence[Source]) -> InputKind | None:
    """The kind of state that a path ends in: `..._parameters['weight']`."""
    if len(steps) < 2 or steps[-1].accessor != "dict_item":
        return None
    return next((kind for name, kind in _STATE_TABLES.items() if str(steps[-2]).endswith(f".{name}")), None)


def in_user_terms(source: Source) -> str:
    """A source as the program would write it: `L['self'].layer.weight`."""
    return _IN_MODULE.sub(r".\1", str(source))


def target_of(source: Source) -> str:
    """The name of a parameter or buffer in the `state_dict` of the outermost module on the way to it; else empty."""
    steps = list(source.path())
    if _table_of(steps) is None:
        return ""
    tables = ("._modules", *(f".{name}" for name in _STATE_TABLES))
    return ".".join(str(step.key) for table, step in itertools.pairwise(steps) if str(table).endswith(tables))
