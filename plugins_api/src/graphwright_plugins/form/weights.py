"""Weights as constants of a compiled graph: which inputs they are, their real values, and word of a change."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import fx

from graphwright_plugins.graphs.own_copy import own_copy
from graphwright_plugins.signature import GraphSignature, InputKind, signature_of
from graphwright_plugins.torch_compat import FakeTensorMode

from .reshaped_signature import Reshaped, note_again, signature_before, taking


@dataclass(frozen=True)
class WeightsChange:
    """Weights that a compiled graph holds as constants are others in a call."""

    function: str
    """The captured function."""
    changed: tuple[str, ...]
    """The weights, in the program's terms."""
    how: Literal["replaced", "written to"]
    """Whether they are other tensors, as for another module of the class, or the same ones with other values."""
    action: Literal["compiled anew", "refitted", "weights as inputs", "runs in eager"]
    """What is done about it."""
    reason: str = ""
    """Why no less could be done; empty where that is plain."""


WeightsListener: TypeAlias = Callable[[WeightsChange], None]
"""Called when frozen weights change."""

_listeners: list[WeightsListener] = []  # filled by the framework when it is imported


def listen_to_weights(listener: WeightsListener) -> None:
    """Have a function called with every change of frozen weights. Adding a listener again changes nothing."""
    if listener not in _listeners:
        _listeners.append(listener)


def tell_change(change: WeightsChange) -> None:
    """Tell a change of frozen weights."""
    for listener in tuple(_listeners):
        listener(change)


class OfferedValues:
    """The real inputs of the call that a graph is compiled for, and the state to compile in later.

    Args:
        values: A tensor for each input, None for a number.
        around: Makes what has to stand around a compilation that happens while the program runs.
    """

    def __init__(
        self, values: Sequence[Any], around: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext
    ) -> None:
        self.values = values
        self.around = around


_offered: Final[ContextVar[OfferedValues | None]] = ContextVar("graphwright_offered_values", default=None)


@contextlib.contextmanager
def offering(values: OfferedValues) -> Iterator[None]:
    """Offer the real inputs of a call while its graph is compiled, for backends that want weights as constants."""
    token = _offered.set(values)
    try:
        yield
    finally:
        _offered.reset(token)


def offered_values() -> OfferedValues | None:
    """The real inputs, where somebody offers them."""
    return _offered.get()


def weights_of(signature: GraphSignature) -> tuple[int, ...]:
    """The positions of the inputs that may be constants: weights that the graph neither changes nor hands out."""
    handed_out = {output.aliases_input for output in signature.outputs} | {o.is_input for o in signature.outputs}
    return tuple(
        index
        for index in signature.indices(InputKind.PARAMETER, InputKind.BUFFER)
        if not signature.inputs[index].mutated
        and signature.inputs[index].alias_group is None
        and signature.inputs[index].tensor is not None
        and index not in handed_out
    )


def gradients_flow(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Whether the results of a graph require gradients, or what it writes to may come to."""
    signature = signature_of(graph, example_inputs)
    if any(output.tensor is not None and output.tensor.requires_grad for output in signature.outputs):
        return True
    asked = any(isinstance(value, torch.Tensor) and value.requires_grad for value in example_inputs)
    told = all(output.tensor is not None or not output.name for output in signature.outputs)
    written = any(entry.mutated for entry in signature)
    return asked and torch.is_grad_enabled() and (written or not told)


def as_constant(tensor: torch.Tensor, kind: InputKind, *, contiguous: bool = False) -> torch.Tensor:
    """A weight as a constant: without gradient, a parameter if it is one. Its memory is shared, if it can be."""
    value = tensor.detach()
    if contiguous:
        value = value.contiguous()
    return torch.nn.Parameter(value, requires_grad=False) if kind is InputKind.PARAMETER else value


def with_constants(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    fake_mode: FakeTensorMode,
    constants: Mapping[int, torch.Tensor],
) -> Reshaped:
    """The graph with some of its inputs held by itself, under the names of their placeholders.

    Args:
        graph: The graph; it is not changed.
        example_inputs: Its inputs on fakes.
        fake_mode: Their mode.
        constants: The tensors, as `as_constant` gives them, by position.
    """
    before = signature_before(graph, example_inputs)
    own = own_copy(graph)
    placeholders = own.graph.find_nodes(op="placeholder")
    for place, tensor in constants.items():
        node = placeholders[place]
        if isinstance(tensor, torch.nn.Parameter):
            own.register_parameter(node.name, tensor)
        else:
            own.register_buffer(node.name, tensor)
        with own.graph.inserting_after(placeholders[-1]):
            held = own.graph.get_attr(node.name)
        node.replace_all_uses_with(held)
        held.meta.update(node.meta)
    for place in constants:
        own.graph.erase_node(placeholders[place])
    kept = [i for i in range(len(example_inputs)) if i not in constants]
    inputs = [example_inputs[i] for i in kept]
    note_again(own, inputs, fake_mode, before, kept)
    return Reshaped(own, inputs, kept, taking(kept))
