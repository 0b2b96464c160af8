"""Graphs that AOTAutograd can't do as eager does, found before it compiles them.

* Inputs share memory, perhaps by way of another library, and the graph writes to it. AOTAutograd makes their base one
  input in their place, where they have one. It refuses many of these graphs by an assertion, and compiles others
  wrongly: a write under `no_grad` is replayed with gradients on, views of the base come out with another shape.
* A result is a view made under `no_grad` of what requires a gradient. No gradient flows from it; AOTAutograd makes the
  view anew, and lets it flow.
* A graph writes under `no_grad` to an input that has a history, and computes nothing that needs gradients. AOTAutograd
  takes it for inference, and replays the write with gradients on, which cuts the input off from its history.
* A result is a detached input, written to since with what requires a gradient. AOTAutograd makes it anew as a view of
  the input, with the input's history or without any.
* A result is one of several views that an operator such as `split` made of an input, and the graph writes to that input
  with gradients on. AOTAutograd makes the result a tensor with memory of its own.
* A graph writes under `no_grad`, or through `detach`, to an input that is a view of a leaf. AOTAutograd replays the
  write with gradients on, which a leaf that asks for gradients refuses.
* A graph writes to a tensor that has several elements in one place, as `expand` makes them. Eager refuses most of these
  writes; AOTAutograd makes new tensors of them. It also takes an input for all of the memory that there is, while
  `as_strided` reaches what lies between and around its elements.
* A graph has a tensor that is not strided, such as a sparse one. AOTAutograd loses gradients, or the process aborts.
* A recurrent layer drops results between its layers. AOTAutograd draws other random numbers for that.

They are left to eager. A backend that hands its graphs to AOTAutograd by a way of its own asks `beyond_aot` too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from graphwright_plugins.graphs.layouts import may_meet
from graphwright_plugins.graphs.trial_run import TrialRun
from graphwright_plugins.graphs.values import storages_of
from graphwright_plugins.signature import attached_signature
from graphwright_plugins.torch_compat import FakeTensorMode, is_one_of_several_views

from .appearances import Appearance, name_of


def beyond_aot(graph: fx.GraphModule, example_inputs: Sequence[Any], fake_mode: FakeTensorMode) -> str | None:
    """Say why AOTAutograd can't do a graph as eager does, or None where nothing is known against it.

    Args:
        graph: The graph; it is not changed.
        example_inputs: Its inputs, as fakes of this mode.
        fake_mode: The mode.
    """
    appearance = Appearance(graph, example_inputs)
    return _seen_at_once(appearance) or _seen_in_trial(appearance, graph, example_inputs, fake_mode)


def _seen_at_once(appearance: Appearance) -> str | None:
    layout = appearance.other_layout()
    if layout is not None:
        return f"{layout}, and it takes only strided tensors"
    layer = appearance.recurrent_dropout()
    return None if layer is None else f"{layer.name} has dropout between its layers, which would draw other numbers"


def _seen_in_trial(
    appearance: Appearance, graph: fx.GraphModule, example_inputs: Sequence[Any], fake_mode: FakeTensorMode
) -> str | None:
    groups = list(_overlapping(graph, example_inputs))
    switches = any("grad" in name_of(node) for node in graph.graph.nodes)
    detaches = appearance.may_detach_and_write()
    divides = appearance.may_divide_and_write()
    ill_defined = appearance.may_write_where_elements_overlap() or appearance.may_restride_and_write()
    leaves = _views_of_leaves(appearance, example_inputs)
    if not (groups or switches or detaches or divides or leaves or ill_defined):
        return None
    trial = TrialRun(graph, example_inputs, fake_mode)
    return (
        (groups and _shared_and_written(trial, groups))
        or (switches and _history_lost(trial))
        or (leaves and _leaf_written_to(trial, leaves))
        or (detaches and _history_of_its_own(trial))
        or (divides and _view_of_several(trial))
        or (ill_defined and _ill_defined_writes(trial))
        or None
    )


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


def _views_of_leaves(appearance: Appearance, example_inputs: Sequence[Any]) -> list[int]:
    """The indices of inputs that are views of leaves which require gradients, where the graph may write to memory."""
    bases = [value._base if isinstance(value, torch.Tensor) else None for value in example_inputs]
    found = [i for i, base in enumerate(bases) if base is not None and base.is_leaf and base.requires_grad]
    return found if found and torch.is_grad_enabled() and appearance.may_write_at_all() else []


def _leaf_written_to(trial: TrialRun, views: Sequence[int]) -> str | None:
    for index in views:
        if index in trial.written:
            name = trial.placeholders[index].name
            return f"it writes without gradients to its input {name}, a view of a leaf that requires a gradient"
    return None


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


def _history_of_its_own(trial: TrialRun) -> str | None:
    for node in trial.results:
        value = trial.values.get(node)
        if not isinstance(value, torch.Tensor) or value.grad_fn is None:
            continue
        for index, copy in enumerate(trial.copies):
            if set(storages_of(value)).isdisjoint(storages_of(copy)) or value is copy:
                continue
            if value._base is None or value._base is not copy:
                name = trial.placeholders[index].name
                return f"its result {node.name} lies in the memory of its input {name} and has a history of its own"
    return None


def _view_of_several(trial: TrialRun) -> str | None:
    for node in trial.results:
        value = trial.values.get(node)
        if not isinstance(value, torch.Tensor) or not value.requires_grad or not is_one_of_several_views(value):
            continue
        for index in sorted(trial.written):
            if not set(storages_of(value)).isdisjoint(storages_of(trial.copies[index])):
                name = trial.placeholders[index].name
                return f"its result {node.name} is one of several views of its input {name}, to which it writes"
    return None


def _ill_defined_writes(trial: TrialRun) -> str | None:
    if trial.overlapping_writes:
        name = trial.overlapping_writes[0].removeprefix("aten::")
        return f"{name} writes to a tensor that has several elements in one place of memory, as expand gives it"
    for index in sorted(trial.restrided & trial.written):
        name = trial.placeholders[index].name
        return f"it writes to its input {name}, and uses as_strided on its memory, which may reach beyond it"
    return None


def _overlapping(graph: fx.GraphModule, inputs: Sequence[Any]) -> Iterator[list[int]]:
    """The indices of inputs that share memory, in groups."""
    for group in _of_one_memory(graph, inputs):
        if any(may_meet(inputs[first], inputs[second]) for first, second in itertools.combinations(group, 2)):
            yield group


def _of_one_memory(graph: fx.GraphModule, inputs: Sequence[Any]) -> Iterator[list[int]]:
    """The indices of inputs whose memory begins at one address.

    Fakes tell only of tensors that share a storage. Capture has seen where the tensors are, and what shares memory by
    way of another library, such as NumPy, has a storage of its own.
    """
    signature = attached_signature(graph)
    known = [None] * len(inputs) if signature is None else [entry.alias_group for entry in signature]
    groups: list[set[int]] = []
    for members in (*_members(map(storages_of, inputs)), *_members([() if key is None else (key,) for key in known])):
        apart = [group for group in groups if group.isdisjoint(members)]
        groups = [*apart, members.union(*(group for group in groups if group not in apart))]
    return (sorted(group) for group in groups)


def _members(keys: Iterable[Iterable[int]]) -> list[set[int]]:
    """The places that have a key in common, where there are several."""
    places: dict[int, set[int]] = {}
    for place, own in enumerate(keys):
        for key in own:
            places.setdefault(key, set()).add(place)
    return [group for group in places.values() if len(group) > 1]
