"""Graphs that AOTAutograd can't do as eager does, found before it compiles them.

* Inputs share memory, and the graph writes to it. AOTAutograd makes their base one input in their place. It refuses
  many of these graphs by an assertion, and compiles others wrongly: a write under `no_grad` is replayed with gradients
  on, views of the base come out with another shape.
* A result is a view made under `no_grad` of what requires a gradient. No gradient flows from it; AOTAutograd makes the
  view anew, and lets it flow.
* A graph writes under `no_grad` to an input that has a history, and computes nothing that needs gradients. AOTAutograd
  takes it for inference, and replays the write with gradients on, which cuts the input off from its history.

They are left to eager. A backend that hands its graphs to AOTAutograd by a way of its own asks `beyond_aot` too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from graphwright_plugins.graphs.trial_run import TrialRun
from graphwright_plugins.graphs.values import storages_of
from graphwright_plugins.torch_compat import FakeTensorMode


def beyond_aot(graph: fx.GraphModule, example_inputs: Sequence[Any], fake_mode: FakeTensorMode) -> str | None:
    """Say why AOTAutograd can't do a graph as eager does, or None where nothing is known against it.

    Args:
        graph: The graph; it is not changed.
        example_inputs: Its inputs, as fakes of this mode.
        fake_mode: The mode.
    """
    groups = list(_overlapping(example_inputs))
    switches = any("grad" in getattr(node.target, "__name__", str(node.target)) for node in graph.graph.nodes)
    if not groups and not switches:
        return None
    trial = TrialRun(graph, example_inputs, fake_mode)
    return (groups and _shared_and_written(trial, groups)) or (switches and _history_lost(trial)) or None


def _shared_and_written(trial: TrialRun, groups: Sequence[Sequence[int]]) -> str | None:
    names = [node.name for node in trial.placeholders]
    for group in groups:
        for index in group:
            if index in trial.written:
                others = ", ".join(names[other] for other in group if other != index)
                return f"it writes to its input {names[index]}, which shares memory with its input {others}"
    return None


def _history_lost(trial: TrialRun) -> str | None:
    return _without_history(trial) or _written_without_grad(trial)


def _written_without_grad(trial: TrialRun) -> str | None:
    if not torch.is_grad_enabled() or any(map(trial.needs_gradients, trial.results)):
        return None
    for index in sorted(trial.written_without_grad):
        copy = trial.copies[index]
        if copy.requires_grad and not copy.is_leaf:
            name = trial.placeholders[index].name
            return f"it writes to its input {name} under no_grad, and would cut it off from its history"
    return None


def _without_history(trial: TrialRun) -> str | None:
    for node in trial.results:
        value = trial.values.get(node)
        lacks_history = isinstance(value, torch.Tensor) and value.requires_grad and value.grad_fn is None
        if lacks_history and not any(value is copy for copy in trial.copies):
            return f"its result {node.name} requires a gradient but has no history, and would get one"
    return None


def _overlapping(inputs: Sequence[Any]) -> Iterator[list[int]]:
    """The indices of inputs that share memory, in groups."""
    by_storage: dict[int, list[int]] = {}
    for index, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            for key in storages_of(value):
                by_storage.setdefault(key, []).append(index)
    for group in by_storage.values():
        if len(group) > 1 and any(
            _meet(inputs[first], inputs[second]) for i, first in enumerate(group) for second in group[i + 1 :]
        ):
            yield group


def _meet(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors of one storage may have an element in common: their stretches of it meet."""
    one, other = _stretch(first), _stretch(second)
    return one is None or other is None or (one[0] < other[1] and other[0] < one[1])


def _stretch(tensor: torch.Tensor) -> tuple[int, int] | None:
    """The bytes of its storage that a tensor lies in; None where sizes vary."""
    layout = (*tensor.shape, *tensor.stride())
    start = tensor.storage_offset()
    if isinstance(start, torch.SymInt) or any(isinstance(number, torch.SymInt) for number in layout):
        return None
    last = start + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    end = start if 0 in tensor.shape else last + 1
    return start * tensor.itemsize, end * tensor.itemsize
