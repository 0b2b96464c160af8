"""Help for what backends do with fake values: real examples, the device of a graph, the constants that it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from graphwright_plugins.graphs.symbols import is_symbolic
from graphwright_plugins.graphs.values import node_value, storages_of

from .errors import UnsupportedGraph
from .torch_compat import expression_of, outside_fake_mode, plausible_value


def real_examples(example_inputs: Sequence[Any], *, seed: int = 0) -> list[Any]:
    """Real inputs like these fakes: with their dtypes, devices, strides and offsets, and sizes that are plausible.

    Nothing is asked of symbols, so that nothing is assumed of them. A size that varies is what it was in the call that
    is compiled for, where that is known, and the same symbol is the same number everywhere. Inputs that share memory
    share it. Floats are small and random, ints are 0 or 1, so that they can serve as indices. Where that is not
    enough, because the program checks values, no examples can be made up.

    Args:
        example_inputs: Fake tensors, numbers or symbolic numbers. Real tensors are copied.
        seed: For the values; the state of torch's random generators is left as it is.
    """
    generator = torch.Generator().manual_seed(seed)
    memory: dict[int, torch.Tensor] = {}
    with outside_fake_mode(), torch.no_grad():
        return [_real(value, memory, generator) for value in example_inputs]


def _real(value: Any, memory: dict[int, torch.Tensor], generator: torch.Generator) -> Any:
    if is_symbolic(value):
        return plausible_value(value)
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout is not torch.strided:
        raise UnsupportedGraph(f"no example can be made up of layout {value.layout}", reason=f"layout {value.layout}")
    size, stride = ([_number(n) for n in part] for part in (value.shape, value.stride()))
    offset = _number(value.storage_offset())
    key = next(storages_of(value))
    if key not in memory:
        whole = _number(value.untyped_storage().nbytes()) // value.itemsize
        last = 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        memory[key] = _filled(max(whole, offset + last), value.dtype, generator).to(value.device)
    made = memory[key].view(value.dtype).as_strided(size, stride, offset)
    return made.detach().requires_grad_() if value.requires_grad else made


def _number(value: Any) -> int:
    return int(plausible_value(value)) if is_symbolic(value) else int(value)


def _filled(length: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        drawn = torch.rand(length, generator=generator) * 2 - 1
        return drawn.to(dtype)
    return torch.randint(0, 2, (length,), generator=generator).to(dtype)


def device_of(graph: fx.GraphModule, example_inputs: Sequence[Any] | None = None) -> torch.device | None:
    """The one device that a graph computes on; None where it has no tensors.

    A tensor of a single number on the CPU among others counts for nothing: any device takes it.

    Args:
        graph: The graph.
        example_inputs: Its inputs on fakes, where its placeholders have no values noted.

    Raises:
        UnsupportedGraph: There are several; the message names a node for each.
    """
    found: dict[torch.device, str] = {}
    scalars: dict[torch.device, str] = {}
    for name, tensor in _tensors(graph, example_inputs):
        on_cpu = tensor.device.type == "cpu" and tensor.dim() == 0
        (scalars if on_cpu else found).setdefault(tensor.device, name)
    if len(found) > 1:
        told = ", ".join(f"{name} on {device}" for device, name in found.items())
        raise UnsupportedGraph(f"the graph has tensors on several devices: {told}", reason="several devices")
    return next(iter(found), next(iter(scalars), None))


def _tensors(graph: fx.GraphModule, example_inputs: Sequence[Any] | None) -> Iterator[tuple[str, torch.Tensor]]:
    given = iter(example_inputs or ())
    for node in graph.graph.nodes:
        value = next(given, node_value(node)) if node.op == "placeholder" else node_value(node)
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(each, torch.Tensor):
                yield node.name, each
    yield from constants_of(graph).items()


def constants_of(graph: fx.GraphModule) -> Mapping[str, torch.Tensor]:
    """The tensors that a graph holds itself, by the names that its `get_attr` nodes have for them, in order of use."""
    found: dict[str, torch.Tensor] = {}
    for node in graph.graph.find_nodes(op="get_attr"):
        value: Any = graph
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, torch.Tensor):
            found[str(node.target)] = value
    return found


def symbols_of(example_inputs: Sequence[Any]) -> Mapping[str, tuple[int, int | None]]:
    """Where each symbol among the inputs is found first: the input, and its dimension or None for the number itself.

    A symbol that comes up in expressions only is not among them.
    """
    found: dict[str, tuple[int, int | None]] = {}
    for index, value in enumerate(example_inputs):
        if is_symbolic(value) and expression_of(value).is_Symbol:
            found.setdefault(str(expression_of(value)), (index, None))
        for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if is_symbolic(size) and expression_of(size).is_Symbol:
                found.setdefault(str(expression_of(size)), (index, dim))
    return found
