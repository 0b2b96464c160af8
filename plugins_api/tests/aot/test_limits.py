"""Which graphs are beyond AOTAutograd, as a backend asks that hands it graphs by a way of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from graphwright_plugins import beyond_aot, compile_context
from graphwright_plugins.aot import limits
from graphwright_plugins.graphs.unused_results import values_of_nodes
from graphwright_plugins.signature import attach_signature, derived_signature
from graphwright_plugins.torch_compat import as_fake, as_symbolic, fake_mode_of


def reason(function: Callable[..., Any], *inputs: Any, group: tuple[int, ...] = ()) -> str | None:
    """Why a function's graph is beyond AOTAutograd; the inputs of a group share memory in the program."""
    graph = function if isinstance(function, fx.GraphModule) else fx.symbolic_trace(function)
    with compile_context(inputs) as fake_mode:
        fakes = [as_fake(fake_mode, value) for value in inputs]
        signature = derived_signature(graph, fakes, find_writes=False)
        if group:
            entries = [
                dataclasses.replace(entry, alias_group=7 if place in group else entry.alias_group)
                for place, entry in enumerate(signature)
            ]
            attach_signature(graph, dataclasses.replace(signature, inputs=tuple(entries)))
        return beyond_aot(graph, fakes, fake_mode)


def says(found: str | None, *words: str) -> bool:
    return found is not None and all(word in found for word in words)


# ------------------------------------------------------------------ memory that is shared


def writes_to_the_second(x, y, z):
    return x * 1, y.add_(1), z * 1


def test_inputs_that_share_memory_through_storages_of_their_own():
    inputs = torch.ones(2), torch.ones(2), torch.ones(2)
    assert reason(writes_to_the_second, *inputs) is None
    assert says(reason(writes_to_the_second, *inputs, group=(0, 1)), "input y", "shares memory with its input x")
    assert reason(writes_to_the_second, *inputs, group=(0, 2)) is None


def test_both_ways_of_sharing_memory_make_one_group():
    x = torch.ones(2)
    found = reason(writes_to_the_second, torch.ones(2), x, x.view(1, 2), group=(0, 1))
    assert says(found, "shares memory with its input x, z")


def test_inputs_side_by_side_in_one_memory_are_not_shared():
    memory = torch.ones(6)
    assert reason(writes_to_the_second, memory[:2], memory[2:4], memory[4:], group=(0, 1, 2)) is None
    assert reason(writes_to_the_second, memory[:2], memory[1:3], memory[4:], group=(0, 1, 2)) is not None


# ------------------------------------------------------------------ writes where elements overlap

OVERLAPPING: list[Callable[[Any], Any]] = [
    lambda x: x[:1].expand(3).add_(1),
    lambda x: (x * 2)[:1].expand(3).mul_(2),
    lambda x: torch.relu_(x[:1].expand(3)),
    lambda x: torch.nn.functional.dropout(x[:1].expand(3), 0.5, True, True),
    lambda x: torch.add(x, 1, out=torch.empty(1).expand(4)),
    lambda x: x.unfold(0, 2, 1).add_(1),
    lambda x: torch.ops.aten.add_.Tensor(x.unsqueeze(0).expand(3, -1), x),
]
APART: list[Callable[[Any], Any]] = [
    lambda x: x[:1].expand(3)[0].add_(1),
    lambda x: x.expand(3, 4).clone().add_(1),
    lambda x: x[:1].expand(3) * x.add_(1).sum(),
    lambda x: x.unfold(0, 2, 2).add_(1),
    lambda x: x[:1].expand(1).add_(1),
    lambda x: x[:0].expand(3, 0).add_(1),
]


@pytest.mark.parametrize("function", OVERLAPPING)
def test_writes_where_elements_overlap(function):
    assert says(reason(function, torch.ones(4)), "writes to a tensor that has several elements in one place")


@pytest.mark.parametrize("function", APART)
def test_writes_where_no_elements_overlap(function):
    assert reason(function, torch.ones(4)) is None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nn.functional.dropout(x[:1].expand(3), 0.5, True),
        lambda x: torch.nn.functional.relu(x[:1].expand(3), inplace=False),
        lambda x: x.expand(3, 4).mean(0, True).add_(1),
    ],
)
def test_graphs_are_tried_only_where_a_look_does_not_tell(function, monkeypatch):
    def noted(x):
        graph = fx.symbolic_trace(function)
        for node, value in values_of_nodes(graph, [x], fake_mode_of([x])).items():
            node.meta["example_value"] = value
        return graph

    monkeypatch.setattr(limits, "TrialRun", None)
    with compile_context([torch.ones(4)]) as fake_mode:
        x = as_fake(fake_mode, torch.ones(4))
        assert beyond_aot(noted(x), [x], fake_mode) is None


def test_an_input_whose_elements_overlap():
    assert says(reason(lambda x: x.add_(1), torch.ones(1).expand(3)), "add_ writes")
    assert reason(lambda x: x.add(1), torch.ones(1).expand(3)) is None


def test_sizes_that_vary_are_not_fixed_by_asking():
    with compile_context([torch.ones(2)]) as fake_mode:
        x = as_symbolic(fake_mode, torch.ones(4, 5), [0, 1])
        function = fx.symbolic_trace(lambda x: x.unsqueeze(0).expand(3, -1, -1).mul_(2))
        assert says(beyond_aot(function, [x], fake_mode), "mul_ writes")
        assert beyond_aot(fx.symbolic_trace(lambda x: x.t().expand(5, 4).add_(1)), [x], fake_mode) is None
        assert beyond_aot(fx.symbolic_trace(lambda x: x.unsqueeze(0).t().mul_(2)), [x], fake_mode) is None


@pytest.mark.parametrize(
    ("function", "is_beyond"),
    [
        (lambda x: x.as_strided((2,), (1,), 1).fill_(3), True),
        (lambda x: (x.add_(1), torch.as_strided(x, (2,), (1,), 1) * 2), True),
        (lambda x: x.as_strided((2,), (1,), 1) * 2, False),
        (lambda x: (x * 2).as_strided((2,), (1,), 1).fill_(3), False),
        (lambda x: x.as_strided((2,), (1,), 1) * x.mul(2).add_(1), False),
    ],
)
def test_as_strided_on_memory_from_outside_that_is_written_to(function, is_beyond):
    assert says(reason(function, torch.arange(4.0)[::2]), "writes to its input x", "as_strided") == is_beyond


# ------------------------------------------------------------------ layouts


@pytest.mark.parametrize(
    "function",
    [lambda x: x.to_sparse().to_dense(), lambda x: x.to_sparse_csr().values(), lambda x: x.to_mkldnn().to_dense()],
)
def test_layouts_by_name(function):
    assert says(reason(function, torch.ones(2, 2)), "works with a layout that is not torch.strided")


def test_layouts_by_what_nodes_are_known_to_give():
    graph = fx.symbolic_trace(lambda x: torch.zeros_like(x, layout=torch.sparse_coo) * 2)
    zeros = next(node for node in graph.graph.nodes if node.op == "call_function")
    zeros.meta["example_value"] = (torch.zeros(2, 2, layout=torch.sparse_coo),)
    assert says(reason(graph, torch.ones(2, 2)), "zeros_like gives a tensor with the layout torch.sparse_coo")


def test_layouts_of_inputs():
    assert says(reason(lambda x: x * 2, torch.ones(2, 2).to_sparse()), "its input x has the layout torch.sparse_coo")


def test_layouts_in_the_body_of_an_operator():
    body = fx.symbolic_trace(lambda x: x.to_sparse().to_dense())
    root = torch.nn.Module()
    root.body = body
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_module("body", (x,)),))
    assert says(reason(fx.GraphModule(root, graph), torch.ones(2, 2)), "to_sparse")


# ------------------------------------------------------------------ recurrent layers


def recurrent(kind: str, layers: int, dropout: float, train: bool, *, packed: bool = False, named: bool = False) -> Any:
    """A graph of one call of a recurrent layer, and its inputs."""
    graph = fx.Graph()
    x, state, sizes = graph.placeholder("x"), graph.placeholder("state"), graph.placeholder("sizes")
    module = getattr(torch.nn, kind.split("_")[0].upper())(2, 2, layers)
    weights = [graph.get_attr(name) for name, _ in module.named_parameters()]
    hidden: Any = (state, state) if kind == "lstm" else state
    args: tuple[Any, ...] = (x, sizes, hidden, weights) if packed else (x, hidden, weights)
    kwargs: dict[str, Any] = {"num_layers": layers, "dropout": dropout, "train": train, "bidirectional": False}
    rest = kwargs if packed else {**kwargs, "batch_first": False}
    if named:
        call = graph.call_function(getattr(torch, kind), (*args, True), rest)
    else:
        call = graph.call_function(getattr(torch, kind), (*args, True, *rest.values()))
    graph.output((call,))
    data = torch.ones(3, 2) if packed else torch.ones(3, 1, 2)
    return fx.GraphModule(module, graph), (data, torch.zeros(layers, 1, 2), torch.ones(3, dtype=torch.long))


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_recurrent_layers_with_dropout(kind, packed, named):
    cases = ((2, 0.5, True, True), (1, 0.5, True, False), (2, 0.0, True, False), (2, 0.5, False, False))
    for layers, dropout, train, is_beyond in cases:
        graph, inputs = recurrent(kind, layers, dropout, train, packed=packed, named=named)
        graph(*inputs)  # it is one that torch takes
        assert says(reason(graph, *inputs), kind, "dropout") == is_beyond
