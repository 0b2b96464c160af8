"""A graph that is closed, as the backend gets it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import torch
from torch import fx

from graphwright.graph.ambient_state import AmbientState, StateCall
from graphwright.graph.graph_inputs import GraphInput, NumberInput
from graphwright_plugins import GraphSignature


@dataclass(frozen=True)
class FinishedGraph:
    """What the backend gets, and which inputs the call needs.

    Attributes:
        module: the graph, or None when it computes nothing.
        inputs: the inputs, in the order of the placeholders.
        example_inputs: a fake for each tensor, as it was at entry, and a symbolic int for each int.
        is_repeatable: calling the graph changes nothing but random state: it writes to no input, and calls nothing that
            is unknown.
        draws_random: whether it may draw random numbers.
        changes_state: the graph sets global state on its way, and restores it at its end.
        signature: what is known of inputs and outputs; None where nothing is computed.
        state_calls: what brings the thread from the state at entry to the program's state at the graph's end.
    """

    name: str
    module: fx.GraphModule | None
    inputs: list[GraphInput | NumberInput]
    example_inputs: list[torch.Tensor | torch.SymInt]
    n_outputs: int
    entry_state: AmbientState
    is_repeatable: bool
    draws_random: bool
    changes_state: bool
    state_calls: list[StateCall]
    signature: GraphSignature | None


def graph_name(n: int) -> str:
    """The global name that a compiled graph is found under."""
    return f"__compiled_fn_{n}_{uuid.uuid4().hex}"
