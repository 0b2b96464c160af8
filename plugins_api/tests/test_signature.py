"""Signatures of graphs that come from anywhere: what the graph itself tells."""

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from graphwright_plugins import GraphKind, InputKind, SymbolicNumber, aot_compile, signature_of
from graphwright_plugins.torch_compat import as_symbolic, new_fake_mode


def traced(function, inputs):
    graph = fx.symbolic_trace(function)
    output = graph.graph.output_node()
    if not isinstance(output.args[0], tuple):
        output.args = ((output.args[0],),)
    graph.recompile()
    return graph, inputs


def test_the_graph_tells_types_writes_and_aliases():
    base = torch.zeros(4)
    weight = torch.nn.Parameter(torch.ones(2))

    def function(x, y, w):
        y.add_(1)
        return x + w, y

    graph, inputs = traced(function, [base[:2], base[2:], weight])
    signature = signature_of(graph, inputs)
    assert signature.kind is GraphKind.OTHER
    assert [entry.kind for entry in signature] == [InputKind.USER_INPUT, InputKind.USER_INPUT, InputKind.PARAMETER]
    assert [entry.mutated for entry in signature] == [True, True, False]  # what shares memory changes with it
    assert [entry.alias_group for entry in signature] == [0, 0, None]
    assert [entry.static_address for entry in signature] == [False, False, True]
    assert signature.inputs[1].tensor.storage_offset == 2
    assert signature.outputs[1].is_input == 1


def test_symbols_come_with_their_ranges():
    mode = new_fake_mode()
    graph, _ = traced(lambda x: x.reshape(-1), None)
    tensor = signature_of(graph, [as_symbolic(mode, torch.ones(4, 3), (0,))]).inputs[0].tensor
    size = tensor.shape[0]
    assert isinstance(size, SymbolicNumber)
    assert size.symbols == (size.expression,)
    assert size.least in (0, 2)
    assert size.most is None
    assert tensor.shape[1] == 3


def test_a_graph_that_says_nothing_of_its_inputs_asks_for_them():
    graph, _ = traced(lambda x: x.add_(1), None)
    with pytest.raises(ValueError, match=r"inputs x are.*give signature_of the example inputs"):
        signature_of(graph)


def test_graphs_of_operators_need_no_examples():
    def function(x, y):
        y.add_(x)
        return y.view(-1), y, None, 3

    graph = make_fx(function, tracing_mode="fake")(torch.ones(2, 2), torch.ones(2, 2))
    signature = signature_of(graph)
    assert [entry.mutated for entry in signature] == [False, True]
    assert [output.is_none for output in signature.outputs] == [False, False, True, False]
    assert signature.outputs[3].number == 3
    assert signature.outputs[1].aliases_output == 0


def compiled_parts(function, inputs):
    found = []

    def compiler(graph, example_inputs):
        found.append(signature_of(graph))
        return graph.forward

    graph, _ = traced(function, inputs)
    result = aot_compile(graph, inputs, compiler)(*inputs)
    return found, result


def test_forward_and_backward_are_tied_to_each_other():
    w = torch.nn.Parameter(torch.ones(3))

    def function(x, w, state):
        state.add_(1)
        return (x * w).sin(), x * 2

    parts, results = compiled_parts(function, [torch.ones(2, 3), w, torch.zeros(3)])
    results[0].sum().backward()  # its graph is compiled when it runs, at the latest
    forward, backward = parts
    assert (forward.kind, backward.kind) == (GraphKind.FORWARD, GraphKind.BACKWARD)
    assert [entry.kind for entry in forward] == [InputKind.USER_INPUT, InputKind.PARAMETER, InputKind.USER_INPUT]
    assert [entry.original for entry in forward] == [0, 1, 2]
    assert [output.carries_mutation_of for output in forward.outputs][:3] == [2, None, None]
    assert [output.original for output in forward.outputs][:3] == [None, 0, 1]
    assert all(output.saved for output in forward.outputs[3:])
    assert backward.forward is forward
    for entry in backward:
        if entry.saved_output is not None:
            assert forward.outputs[entry.saved_output].name == entry.name
    tangents = [entry.tangent_of for entry in backward if entry.kind is InputKind.TANGENT]
    assert tangents == [1]
    assert [output.gradient_of for output in backward.outputs if not output.is_none] == [1]
    assert w.grad is not None


def test_without_gradients_it_is_an_inference_graph():
    (only,), _ = compiled_parts(lambda x: x.view(-1), [torch.ones(2, 3)])
    assert only.kind is GraphKind.INFERENCE
    assert only.outputs[0].aliases_input == 0
