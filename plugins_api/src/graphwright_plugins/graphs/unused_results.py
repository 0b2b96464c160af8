"""Keeps what a graph computes and nobody uses, where AOTAutograd would drop it.

An operation whose result is not used may still draw random numbers, so that all later ones differ, or fail. Capture has
removed those that can do neither; AOTAutograd takes out the rest as well, unless they lead to an output.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from graphwright_plugins.torch_compat import FakeTensorMode, as_fake, forget_fresh_symbols

from .values import storages_of as storages_of

_CALLS = ("call_function", "call_method", "call_module")


def with_unused_results(
    graph: fx.GraphModule, example_inputs: Sequence[Any], fake_mode: FakeTensorMode
) -> tuple[fx.GraphModule, int]:
    """The graph with what nobody uses as further outputs, without gradients.

    Args:
        graph: A graph whose output is a tuple; it is not changed.
        example_inputs: Its inputs, as fakes.
        fake_mode: The mode of these fakes.

    Returns:
        The graph, or the same one where nothing is to be kept; and how many outputs it had.
    """
    output = next(iter(reversed(graph.graph.nodes)))
    results = output.args[0]
    if all(node.users for node in graph.graph.nodes if node.op in _CALLS) or not isinstance(results, (tuple, list)):
        return graph, 0
    kept = _unused(graph, values_of_nodes(graph, fresh_inputs(example_inputs, fake_mode), fake_mode))
    if not kept:
        return graph, len(results)
    names = {node.name: path for node, path in kept}
    own = copy.deepcopy(graph.graph)
    last = next(iter(reversed(own.nodes)))
    added = []
    with own.inserting_before(last):
        for node in list(own.nodes):
            if node.name in names:
                for index in names[node.name]:
                    node = own.call_function(_item, (node, index))
                added.append(own.call_method("detach", (node,)))
    last.args = ((*last.args[0], *added),)
    return fx.GraphModule(graph, own), len(results)


def first_results(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The function, giving only so many of its results."""

    def call(*inputs: Any) -> Any:
        return function(*inputs)[:count]

    return call


def _item(value: Any, index: Any) -> Any:
    return value[index]


def _unused(graph: fx.GraphModule, values: Mapping[fx.Node, Any]) -> list[tuple[fx.Node, tuple[int, ...]]]:
    """The nodes that AOTAutograd would drop, and where the first tensor is in the value of each.

    A node stays that leads to an output, and one that writes to memory which is read later, or comes from outside.
    """
    used: set[fx.Node] = set()
    storages = {key for node in graph.graph.nodes if node.op == "placeholder" for key in storages_of(values.get(node))}
    kept = []
    for node in reversed(graph.graph.nodes):
        if node.op not in _CALLS:
            stays = node.op == "output"
        else:
            stays = node in used or not storages.isdisjoint(storages_of(values.get(node)))
            path = None if stays else _first_tensor(values.get(node))
            if path is not None:
                kept.append((node, path))
                stays = True
        if stays:
            used.update(node.all_input_nodes)
            storages.update(key for argument in node.all_input_nodes for key in storages_of(values.get(argument)))
    return kept


def _first_tensor(value: Any) -> tuple[int, ...] | None:
    """The indices that lead to the first tensor in nested tuples and lists."""
    if isinstance(value, torch.Tensor):
        return ()
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            path = _first_tensor(item)
            if path is not None:
                return (index, *path)
    return None


def values_of_nodes(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    fake_mode: FakeTensorMode,
    watching: contextlib.AbstractContextManager[Any] | None = None,
) -> Mapping[fx.Node, Any]:
    """A fake value for each node, from a run on these inputs, which the graph may write to; `watching` is around it."""
    run = _Noting(graph, fake_mode)
    with fake_mode, watching or contextlib.nullcontext():
        run.run(*inputs)
    forget_fresh_symbols(fake_mode)
    return run.values


def fresh_inputs(example_inputs: Sequence[Any], fake_mode: FakeTensorMode) -> list[Any]:
    """Copies of the inputs, as fakes; what capture noted may have changed since."""
    with fake_mode:
        return [_fresh(value) for value in example_inputs]


def _fresh(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    fresh = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    if not value.requires_grad:
        return fresh
    with torch.enable_grad():
        fresh.requires_grad_()
        return fresh if value.is_leaf else fresh.clone()


class _Noting(fx.Interpreter):
    """Runs a graph on fakes and remembers the value of each node."""

    def __init__(self, graph: fx.GraphModule, fake_mode: FakeTensorMode) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.fake_mode = fake_mode
        self.values: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op == "get_attr":
            value = as_fake(self.fake_mode, value)
        self.values[n] = value
        return value
