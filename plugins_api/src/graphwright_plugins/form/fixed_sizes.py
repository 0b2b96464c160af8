"""Graphs without symbolic sizes, and graphs that read their sizes off their tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from graphwright_plugins.graphs.own_copy import own_copy
from graphwright_plugins.graphs.symbols import is_symbolic
from graphwright_plugins.graphs.values import storages_of
from graphwright_plugins.torch_compat import FakeTensorMode, expression_of, size_operator

from .reshaped_signature import Reshaped, note_again, signature_before, taking


def fix_sizes(
    graph: fx.GraphModule, example_inputs: Sequence[Any], fake_mode: FakeTensorMode, places: Sequence[int] | None = None
) -> Reshaped:
    """The graph for these very sizes: symbolic numbers are constants in it and no inputs any more.

    The shape environment notes what is thereby assumed, so that the entry serves these sizes alone.

    Args:
        graph: The graph; it is not changed.
        example_inputs: Its inputs on fakes.
        fake_mode: Their mode.
        places: Which of the symbolic numbers to fix, by position, and no tensors; None for everything.
    """
    numbers = [i for i, value in enumerate(example_inputs) if is_symbolic(value)]
    fixed = numbers if places is None else list(places)
    before = signature_before(graph, example_inputs)
    own = own_copy(graph)
    placeholders = own.graph.find_nodes(op="placeholder")
    for place in fixed:
        placeholders[place].replace_all_uses_with(_fixed(example_inputs[place]))
        own.graph.erase_node(placeholders[place])
    kept = [i for i in range(len(example_inputs)) if i not in fixed]
    inputs = [example_inputs[i] for i in kept]
    if places is None:
        inputs = _fixed_tensors(inputs, fake_mode)
    note_again(own, inputs, fake_mode, before, kept)
    return Reshaped(own, inputs, kept, taking(kept) if len(kept) < len(example_inputs) else None)


def has_symbols(example_inputs: Sequence[Any]) -> bool:
    """Whether any size, stride or number among the inputs varies."""
    return any(
        is_symbolic(value) or (isinstance(value, torch.Tensor) and any(map(is_symbolic, _layout(value))))
        for value in example_inputs
    )


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (*tensor.shape, *(tensor.stride() if tensor.layout is torch.strided else ()), tensor.storage_offset())


def _fixed(number: Any) -> Any:
    if isinstance(number, torch.SymFloat):
        return float(number)
    return bool(number) if isinstance(number, torch.SymBool) else int(number)


def _fixed_tensors(inputs: Sequence[Any], fake_mode: FakeTensorMode) -> list[Any]:
    """The inputs with plain sizes; those that shared memory share it still."""
    memory: dict[int, torch.Tensor] = {}
    shared: dict[int, int] = {}
    for value in inputs:
        for key in storages_of(value):
            shared[key] = shared.get(key, 0) + 1
    return [_fixed_tensor(value, fake_mode, shared, memory) for value in inputs]


def _fixed_tensor(value: Any, fake_mode: FakeTensorMode, shared: Mapping[int, int], memory: dict[int, Any]) -> Any:
    if not isinstance(value, torch.Tensor) or not any(map(is_symbolic, _layout(value))):
        return value
    size, stride = tuple(map(int, value.shape)), tuple(map(int, value.stride()))
    offset = int(value.storage_offset())
    key = next(storages_of(value))
    with fake_mode, torch.no_grad():
        if shared[key] > 1 or offset:
            if key not in memory:
                length = int(value.untyped_storage().nbytes()) // value.itemsize
                memory[key] = torch.empty(length, dtype=value.dtype, device=value.device)
            fixed = memory[key].as_strided(size, stride, offset)
        else:
            fixed = torch.empty_strided(size, stride, dtype=value.dtype, device=value.device)
    return _with_history_of(value, fixed, fake_mode)


def _with_history_of(value: torch.Tensor, fixed: torch.Tensor, fake_mode: FakeTensorMode) -> torch.Tensor:
    if not value.requires_grad:
        return fixed
    fixed = fixed.detach().requires_grad_()
    with fake_mode, torch.enable_grad():
        return fixed if value.is_leaf else fixed.view_as(fixed)


def read_sizes_off_tensors(
    graph: fx.GraphModule, example_inputs: Sequence[Any], fake_mode: FakeTensorMode, *, of_operators: bool
) -> Reshaped:
    """The graph with each size input that a tensor has among its sizes read off that tensor.

    Args:
        graph: The graph; it is not changed.
        example_inputs: Its inputs on fakes.
        fake_mode: Their mode.
        of_operators: Whether the graph is of operators, or of torch's functions and methods.
    """
    found = _places_of_sizes(example_inputs)
    before = signature_before(graph, example_inputs)
    own = own_copy(graph)
    placeholders = own.graph.find_nodes(op="placeholder")
    with own.graph.inserting_before(_first_after(own.graph, placeholders)):
        for place, (holder, dim) in found.items():
            arguments = (placeholders[holder], dim)
            if of_operators:
                size = own.graph.call_function(size_operator(), arguments)
                size.meta["val"] = example_inputs[place]
            else:
                size = own.graph.call_method("size", arguments)
            placeholders[place].replace_all_uses_with(size)
    for place in found:
        own.graph.erase_node(placeholders[place])
    kept = [i for i in range(len(example_inputs)) if i not in found]
    inputs = [example_inputs[i] for i in kept]
    note_again(own, inputs, fake_mode, before, kept)
    return Reshaped(own, inputs, kept, taking(kept) if len(kept) < len(example_inputs) else None)


def numbers_that_are_no_sizes(example_inputs: Sequence[Any]) -> list[int]:
    """The positions of the symbolic numbers that no tensor has among its sizes."""
    found = _places_of_sizes(example_inputs)
    return [i for i, value in enumerate(example_inputs) if is_symbolic(value) and i not in found]


def _places_of_sizes(example_inputs: Sequence[Any]) -> dict[int, tuple[int, int]]:
    """For each number among the inputs that is a size, the tensor and the dimension to read it off."""
    sizes: dict[Any, tuple[int, int]] = {}
    for holder, value in enumerate(example_inputs):
        if isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                if is_symbolic(size):
                    sizes.setdefault(expression_of(size), (holder, dim))
    numbers = {i: value for i, value in enumerate(example_inputs) if isinstance(value, torch.SymInt)}
    return {i: sizes[expression_of(value)] for i, value in numbers.items() if expression_of(value) in sizes}


def _first_after(graph: fx.Graph, placeholders: Sequence[fx.Node]) -> fx.Node:
    return placeholders[-1].next if placeholders else next(iter(graph.nodes))
