"""Trying a graph on fakes to see which of its inputs it writes to, and what its nodes give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from graphwright_plugins.torch_compat import FakeTensorMode, TorchDispatchMode, as_fake, fake_mode_of, new_fake_mode

from .facts import tensors_in
from .gradient_edges import edges_of
from .layouts import overlaps_itself
from .unused_results import fresh_inputs, values_of_nodes
from .values import storages_of


def written_inputs(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> set[int]:
    """The indices of the inputs that a graph writes to, found by a run on copies of them that share no memory."""
    fake_mode = fake_mode_of(example_inputs) or new_fake_mode()
    return TrialRun(graph, [as_fake(fake_mode, value) for value in example_inputs], fake_mode).written


class TrialRun:
    """A run of a graph on copies of its inputs that share no memory.

    Args:
        graph: The graph; it is not changed.
        inputs: Its inputs, as fakes of this mode.
        fake_mode: The mode.
    """

    def __init__(self, graph: fx.GraphModule, inputs: Sequence[Any], fake_mode: FakeTensorMode) -> None:
        self.placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self.results = next(iter(reversed(graph.graph.nodes))).all_input_nodes
        self.copies = fresh_inputs(inputs, fake_mode)
        with fake_mode:
            self.edges = edges_of(self.copies)
        """Where the inputs were in the graph of gradients before the run, with their indices."""
        noting = _NotingWrites()
        self.values = values_of_nodes(graph, self.copies, fake_mode, noting)
        self.written = self._of_storages(noting.written)
        """The indices of the inputs whose memory the graph writes to."""
        self.written_without_grad = self._of_storages(noting.written_without_grad)
        """The indices of those whose memory it writes to while no gradients are recorded."""
        self.restrided = self._of_storages(noting.restrided)
        """The indices of those on whose memory it calls `as_strided`."""
        self.overlapping_writes = tuple(noting.overlapping)
        """The operators that write to a tensor with several elements in one place, as `aten::add_`."""

    def needs_gradients(self, result: fx.Node) -> bool:
        """Whether gradients flow through something that the graph computes for this result: it is no input's memory."""
        value = self.values.get(result)
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return False
        inputs = {key for copy in self.copies for key in storages_of(copy)}
        return inputs.isdisjoint(storages_of(value))

    def _of_storages(self, keys: set[int]) -> set[int]:
        return {i for i, copy in enumerate(self.copies) if not keys.isdisjoint(storages_of(copy))}


class _NotingWrites(TorchDispatchMode):
    """Remembers the storages that operators write to."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's, without annotations
        self.written: set[int] = set()
        self.written_without_grad: set[int] = set()
        self.restrided: set[int] = set()
        self.overlapping: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        schema = getattr(func, "_schema", None)
        if schema is None:  # a higher-order operator: AOTAutograd refuses bodies that write to what they did not make
            return func(*args, **named)
        for position, argument in enumerate(schema.arguments):
            if argument.is_write:
                self._note(schema.name, args[position] if position < len(args) else named.get(argument.name))
        if schema.name == "aten::as_strided":
            self.restrided.update(storages_of(args[0]))
        return func(*args, **named)

    def _note(self, name: str, value: Any) -> None:
        """Note a write to the tensors in a value."""
        keys = set(storages_of(value))
        self.written |= keys
        if not torch.is_grad_enabled():
            self.written_without_grad |= keys
        if any(map(overlaps_itself, tensors_in(value))):
            self.overlapping.append(name)
