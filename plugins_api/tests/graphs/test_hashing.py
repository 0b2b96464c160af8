"""The hash of a graph: what it tells apart, what it does not, and that another process finds the same one."""

import operator
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from graphwright_plugins import UnstableGraph, graph_hash
from graphwright_plugins.torch_compat import as_symbolic, new_fake_mode


def build(*steps, names=("x", "y"), root=None):
    graph = fx.Graph()
    values = [graph.placeholder(name) for name in names]
    for target, *args in steps:
        values.append(graph.call_function(target, tuple(values[a] if type(a) is int else a for a in args)))
    graph.output((values[-1],))
    return fx.GraphModule(root or torch.nn.Module(), graph)


EXAMPLES = (torch.ones(2, 3), torch.ones(2, 3))


def test_names_and_the_process_do_not_matter():
    one = build((torch.add, 0, 1), (torch.relu, 2))
    other = build((torch.add, 0, 1), (torch.relu, 2), names=("self_weight", "z"))
    assert graph_hash(one, EXAMPLES) == graph_hash(other, EXAMPLES)
    program = """
        import torch
        from torch import fx
        from graphwright_plugins import graph_hash
        graph = fx.Graph()
        a, b = graph.placeholder("p"), graph.placeholder("q")
        graph.output((graph.call_function(torch.relu, (graph.call_function(torch.add, (a, b)),)),))
        print(graph_hash(fx.GraphModule(torch.nn.Module(), graph), [torch.ones(2, 3)] * 2))
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=120
    )
    assert found.stdout.strip() == graph_hash(one, EXAMPLES)


@pytest.mark.parametrize(
    "other",
    [
        build((torch.add, 0, 1)),
        build((torch.add, 1, 0), (torch.relu, 2)),
        build((torch.sub, 0, 1), (torch.relu, 2)),
        build((operator.add, 0, 1), (torch.relu, 2)),
    ],
)
def test_other_operations_have_other_hashes(other):
    assert graph_hash(other, EXAMPLES) != graph_hash(build((torch.add, 0, 1), (torch.relu, 2)), EXAMPLES)


@pytest.mark.parametrize(
    "other",
    [
        torch.ones(3, 2),
        torch.ones(3, 2).t(),
        torch.ones(2, 3, dtype=torch.float64),
        torch.ones(2, 3, requires_grad=True),
        torch.ones(2, 3, device="meta"),
        torch.ones(3, 3)[1:],
    ],
)
def test_other_inputs_have_other_hashes(other):
    graph = build((torch.add, 0, 1))
    assert graph_hash(graph, (torch.ones(2, 3), other)) != graph_hash(graph, EXAMPLES)


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0.0, -0.0), ("a", b"a"), ((1,), [1]), (None, 0)])
def test_equal_literals_of_different_kinds_differ(one, other):
    graphs = [build((torch.add, 0, "", value)) for value in (one, other)]
    assert graph_hash(graphs[0], EXAMPLES) != graph_hash(graphs[1], EXAMPLES)


def test_constants_count_by_value():
    def holding(tensor):
        root = torch.nn.Module()
        root.held = tensor
        graph = fx.Graph()
        x = graph.placeholder("x")
        graph.output((graph.call_function(torch.add, (x, graph.get_attr("held"))),))
        return graph_hash(fx.GraphModule(root, graph), (torch.ones(2),))

    assert holding(torch.tensor([1.0, 2.0])) == holding(torch.tensor([1.0, 2.0]))
    assert holding(torch.tensor([1.0, 2.0])) != holding(torch.tensor([1.0, 3.0]))
    assert holding(torch.tensor(float("nan"))) == holding(torch.tensor(float("nan")))


def symbolic(*dims, sizes=((4, 3), (4, 3))):
    mode = new_fake_mode()
    made = [as_symbolic(mode, torch.ones(*size), own) for size, own in zip(sizes, dims, strict=True)]
    return mode, made


def test_symbols_count_by_how_they_relate():
    graph = build((torch.add, 0, 1))
    fixed = graph_hash(graph, (torch.ones(4, 3), torch.ones(4, 3)))
    _, (one, other) = symbolic((0,), (0,))
    _, again = symbolic((0,), (0,), sizes=((5, 3), (5, 3)))  # another first call
    assert graph_hash(graph, (one, other)) == graph_hash(graph, again)
    assert len({fixed, graph_hash(graph, (one, other)), graph_hash(graph, (one, one))}) == 3


def test_what_is_assumed_of_symbols_counts():
    graph = build((torch.add, 0, 1))
    _, free = symbolic((0,), (0,))
    _, bound = symbolic((0,), (0,))
    before = graph_hash(graph, bound)
    assert before == graph_hash(graph, free)
    assert bound[0].shape[0] % 2 == 0
    assert graph_hash(graph, bound) != before


def test_graphs_of_operators_are_hashed_by_their_own_metadata():
    def function(x, y):
        return torch.softmax(x @ y, -1)

    graphs = [make_fx(function, tracing_mode=mode)(torch.ones(2, 3), torch.ones(3, 4)) for mode in ("fake", "symbolic")]
    again = make_fx(function, tracing_mode="symbolic")(torch.ones(2, 3), torch.ones(3, 4))
    assert graph_hash(graphs[1]) == graph_hash(again)
    assert graph_hash(graphs[0]) != graph_hash(graphs[1])


def test_a_function_of_the_programs_is_refused():
    with pytest.raises(UnstableGraph, match=r"relu.*which another process may define otherwise") as caught:
        graph_hash(build((own_relu, 0)), EXAMPLES)
    assert caught.value.node == "own_relu"


def own_relu(x):
    return x.relu()


def test_bodies_are_part_of_it():
    def with_body(target):
        inner = fx.Graph()
        inner.output((inner.call_function(target, (inner.placeholder("a"),)),))
        root = torch.nn.Module()
        root.body = fx.GraphModule(torch.nn.Module(), inner)
        return build((torch.relu, 0), root=root), root

    def calling(target):
        _, root = with_body(target)
        graph = fx.Graph()
        x = graph.placeholder("x")
        body = graph.get_attr("body")
        graph.output((graph.call_function(torch.ops.higher_order.wrap, (body, x)),))
        return graph_hash(fx.GraphModule(root, graph), EXAMPLES[:1])

    assert calling(torch.relu) == calling(torch.relu)
    assert calling(torch.relu) != calling(torch.sin)
