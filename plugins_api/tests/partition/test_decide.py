"""Graphs cut by what a backend supports: results, effects, gradients and reasons, against the whole graph in eager."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import fx

from graphwright_plugins import (
    BackendContractError,
    BackendResourceError,
    Capabilities,
    GraphForm,
    LeftToEager,
    Unsupported,
    UnsupportedGraph,
    aot_compile,
    as_torch_backend,
    collecting,
    resolve_backend,
    run_in_eager,
)
from graphwright_plugins.supports import op_text
from graphwright_plugins.testing import trace
from graphwright_plugins.testing.program import compile_graph
from graphwright_plugins.torch_compat import as_symbolic, new_fake_mode, set_grad_enabled, tracing_context


class Device:
    """A device of its own kind: refuses calls by their bare name, and remembers the graphs it got."""

    name = "device"

    def __init__(self, *refused: str, capabilities: Capabilities | None = None, compile: Any = None) -> None:
        self.refused = set(refused)
        self.capabilities = capabilities or Capabilities()
        self.graphs: list[list[str]] = []
        self.examples: list[list[Any]] = []
        self._compile = compile or (lambda graph, inputs: graph.forward)

    def supports(self, node: fx.Node, options: Any) -> Unsupported | None:
        name = bare(node)
        return Unsupported(f"the device has no {name}") if name in self.refused else None

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: Any) -> Any:
        self.graphs.append([bare(node) for node in graph.graph.nodes if node.op.startswith("call_")])
        self.examples.append(list(example_inputs))
        return self._compile(graph, example_inputs)


def bare(node: fx.Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


def through_aot(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
    return aot_compile(graph, example_inputs, run_in_eager)


def check(device: Any, function: Callable[..., Any] | fx.GraphModule, *inputs: Any, **how: Any) -> Any:
    """Compile in parts, call twice, compare with eager: outputs, inputs, gradients, random state. Gives the report."""
    graph = function if isinstance(function, fx.GraphModule) else trace(function)
    whole = fx.GraphModule(graph, graph.graph)
    with collecting("graph") as collector:
        compiled = compile_graph(resolve_backend(device, **how), graph, copies(inputs))
    for _ in range(2):
        ours, theirs = copies(inputs), copies(inputs)
        torch.manual_seed(3)
        got = compiled(*ours)
        state = torch.get_rng_state()
        torch.manual_seed(3)
        want = whole(*theirs)
        assert torch.equal(state, torch.get_rng_state())
        torch.testing.assert_close([*got, *ours], [*want, *theirs])
        grads = [gradients(out, of) for out, of in ((got, ours), (want, theirs))]
        torch.testing.assert_close(*grads)
    return collector.reports[0]


def copies(inputs: Sequence[Any]) -> list[Any]:
    fresh = [x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in inputs]
    return fresh


def gradients(outputs: Sequence[Any], inputs: Sequence[Any]) -> Any:
    wanted = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    losses = [x.sum() for x in outputs if isinstance(x, torch.Tensor) and x.requires_grad]
    if not wanted or not losses:
        return []
    return [torch.zeros(1) if g is None else g for g in torch.autograd.grad(sum(losses), wanted, allow_unused=True)]


def chain(x):
    return (torch.exp(torch.tanh(torch.cos(torch.sin(x)))),)


X = torch.randn(3, 4, requires_grad=True)


# ------------------------------------------------------------------ where the unsupported operation is


@pytest.mark.parametrize("compile", [None, through_aot], ids=["as it is", "through aot"])
@pytest.mark.parametrize(
    ("refused", "graphs"),
    [
        ((), [["sin", "cos", "tanh", "exp"]]),
        (("sin",), [["cos", "tanh", "exp"]]),
        (("cos",), [["sin"], ["tanh", "exp"]]),
        (("exp",), [["sin", "cos", "tanh"]]),
        (("sin", "tanh"), [["cos"], ["exp"]]),
        (("sin", "cos", "tanh", "exp"), []),
    ],
)
def test_unsupported_at_the_start_in_the_middle_at_the_end_and_everywhere(refused, graphs, compile):
    device = Device(*refused, compile=compile)
    report = check(device, chain, X)
    assert device.graphs == graphs
    assert [entry.reason for entry in report.refusals] == [
        f"the device has no {name}" for name in ["sin", "cos", "tanh", "exp"] if name in refused
    ]
    assert report.outcome == ("backend" if not refused else "parts" if graphs else "fallback")
    assert report.fallback == ("eager" if refused else "")


def test_independent_operations_make_as_few_parts_as_can_be():
    def f(x, y):
        a = torch.sin(x)
        b = torch.cos(y)  # refused, and needs nothing of the device's
        c = torch.tanh(a)
        d = torch.cos(y + 1)
        return c + b + d, torch.exp(c)

    device = Device("cos")
    report = check(device, f, X, X)
    assert [part.backend for part in report.parts] == ["device", "eager", "device"]


def test_a_circle_between_parts_is_not_made():
    def f(x):
        a = torch.sin(x)
        b = torch.cos(a)  # refused
        return a + b, torch.tanh(a)

    device = Device("cos")
    report = check(device, f, X)
    assert [part.backend for part in report.parts] == ["device", "eager", "device"]


def test_small_parts_are_not_worth_it():
    device = Device("cos")
    device.minimum_part_size = 2
    report = check(device, chain, X)
    assert device.graphs == [["tanh", "exp"]]
    assert "its part would have 1 calls, and parts of fewer than 2 are not worth it" in str(report.refusals[0])


def test_a_graph_smaller_than_the_minimum_runs_on_the_fallback():
    device = Device()
    device.minimum_part_size = 9
    assert check(device, chain, X).outcome == "fallback"
    assert device.graphs == []


# ------------------------------------------------------------------ values that cross


def test_values_of_every_kind_cross():
    def f(x):
        values, indices = torch.max(x, 1)
        pieces = torch.split(x, 2, 1)
        return torch.cat(pieces, 0).sum(1)[0] + values.sum(), indices, values

    for refused in ("max", "split", "cat", "sum", "add"):
        check(Device(refused), f, X)


def test_numbers_cross_and_may_be_symbolic():
    graph = trace(lambda x, n: (torch.sin(x).reshape(x.size(0) * 2, -1) * n, x.size(0) + n))
    mode = new_fake_mode()
    examples = [as_symbolic(mode, torch.randn(6, 4), [0]), 2]
    for refused in ("sin", "reshape", "mul", "add", "size"):
        device = Device(refused)
        with tracing_context(mode):
            compiled = resolve_backend(device).compile(fx.GraphModule(graph, graph.graph), examples)
        for rows in (6, 8, 3):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(compiled(x, 2), graph(x, 2))


def test_the_same_value_in_several_parts():
    def f(x):
        a = torch.sin(x)
        return torch.cos(a) + a, torch.tanh(torch.cos(a) * a) + a

    check(Device("cos"), f, X)
    check(Device("sin", "tanh"), f, X)


def test_what_the_graph_holds_and_bodies():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.mul, (x, graph.get_attr("held")))
    z = graph.call_function(torch.add, (graph.call_function(torch.sin, (y,)), graph.get_attr("held")))
    graph.output((z,))
    root = torch.nn.Module()
    root.register_buffer("held", torch.full((4,), 2.0))
    check(Device("sin"), fx.GraphModule(root, graph), X)


# ------------------------------------------------------------------ memory


def in_place(x):
    a = torch.sin(x)
    row = a[0]
    row.add_(1)
    b = torch.cos(a.clone())
    a.mul_(2)
    return b, a, row, torch.tanh(row.clone())


@pytest.mark.parametrize("compile", [None, through_aot], ids=["as it is", "through aot"])
@pytest.mark.parametrize("refused", ["sin", "getitem", "add_", "cos", "clone", "mul_", "tanh"])
def test_writes_to_views_at_a_border_are_seen_on_both_sides(refused, compile):
    check(Device(refused, compile=compile), in_place, X)


def changes_its_input(x):
    y = torch.sin(x)
    x.add_(1)
    z = torch.cos(x)
    x[0].mul_(y[0])
    return y + z, x


@pytest.mark.parametrize("refused", ["sin", "add_", "cos", "mul_", "getitem"])
@pytest.mark.parametrize("mutation", [True, False])
def test_inputs_are_changed_in_order(refused, mutation):
    def compile(graph, inputs):
        def run(*given):
            versions = [x._version for x in given]
            results = graph.forward(*given)
            assert mutation or versions == [x._version for x in given]
            return results

        return run

    device = Device(refused, capabilities=Capabilities(mutation=mutation), compile=compile)
    report = check(device, changes_its_input, torch.randn(3, 4))
    if not mutation:
        assert "changes no inputs" in str(report)


def test_a_graph_that_a_backend_does_but_for_its_effects_is_cut_at_these():
    def f(x):
        x.add_(1)
        return (torch.sin(x), x[0])

    device = Device(
        capabilities=Capabilities(mutation=False, aliasing=False),
        compile=lambda graph, inputs: lambda *given: [out.clone() for out in graph.forward(*given)],
    )
    compiled = compile_graph(resolve_backend(device), trace(f), [torch.zeros(2, 2)])
    x = torch.zeros(2, 2)
    result, row = compiled(x)
    x.add_(1)
    assert row.tolist() == [2.0, 2.0]
    assert device.graphs == [["sin"]]
    torch.testing.assert_close(result, torch.sin(torch.ones(2, 2)))


def test_inputs_that_share_memory():
    def f(x, y):
        z = torch.sin(y)
        x.add_(1)
        return torch.cos(y) + z, y

    for refused in ("sin", "add_", "cos", "add"):
        compiled = None
        results = []
        for function in (None, f):
            base = torch.arange(6.0)
            given = [base[:4], base[2:]]
            if function is None:
                compiled = compile_graph(resolve_backend(Device(refused)), trace(f), given)
            results.append([*(function or compiled)(*given), base])
        torch.testing.assert_close(results[0], results[1])


def test_statistics_of_batch_norm_are_writes():
    def f(x, mean, var):
        before = mean + 0
        y = torch.nn.functional.batch_norm(x, mean, var, training=True)
        return y, before, mean * 2, torch.sin(var)

    for refused in ("add", "batch_norm", "mul", "sin"):
        check(Device(refused), f, torch.randn(4, 3), torch.zeros(3), torch.ones(3))


def test_a_change_of_sizes_keeps_its_memory_together():
    def f(x):
        a = torch.sin(x)
        row = a[0]
        a.t_()
        return row + 1, torch.cos(a), a[0]

    for refused in ("sin", "getitem", "t_", "cos"):
        check(Device(refused), f, torch.randn(3, 4))


def test_custom_operators_keep_their_order_and_may_write():
    seen = []

    @torch.library.custom_op("graphwright_partition::note", mutates_args=("x",))
    def note(x: torch.Tensor, name: str) -> None:
        seen.append((name, float(x.flatten()[0])))
        x.add_(1)

    def f(x):
        a = x + 1
        note(a, "first")
        b = torch.sin(a)
        note(b, "second")
        note(a, "third")
        return a, b

    graph = fx.Graph()
    x = graph.placeholder("x")
    a = graph.call_function(operator.add, (x, 1))
    graph.call_function(torch.ops.graphwright_partition.note.default, (a, "first"))
    b = graph.call_function(torch.sin, (a,))
    graph.call_function(torch.ops.graphwright_partition.note.default, (b, "second"))
    graph.call_function(torch.ops.graphwright_partition.note.default, (a, "third"))
    graph.output((a, b))
    for refused in ("add", "note.default", "sin"):
        compiled = compile_graph(
            resolve_backend(Device(refused)), fx.GraphModule(torch.nn.Module(), graph), [torch.zeros(2)]
        )
        seen.clear()
        got = compiled(torch.zeros(2))
        ours = list(seen)
        seen.clear()
        torch.testing.assert_close(got, f(torch.zeros(2)))
        assert ours == seen


# ------------------------------------------------------------------ random numbers and state


def test_random_numbers_are_drawn_in_order():
    def f(x):
        a = torch.rand_like(x)
        b = torch.sin(x) + torch.randn(4)
        return a, torch.nn.functional.dropout(b, 0.5), torch.cos(torch.rand_like(b))

    for refused in ("rand_like", "randn", "sin", "dropout", "cos"):
        check(Device(refused), f, X)


@pytest.mark.parametrize("compile", [None, through_aot], ids=["as it is", "through aot"])
@pytest.mark.parametrize("refused", ["sin", "cos", "tanh", "mul", "matmul", "exp"])
def test_each_part_runs_under_the_state_of_its_nodes(refused, compile):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(set_grad_enabled, (False,))
    a = graph.call_function(torch.sin, (x,))
    b = graph.call_function(torch.cos, (a,))
    graph.call_function(set_grad_enabled, (True,))
    c = graph.call_function(torch.tanh, (x,))
    d = graph.call_function(torch.mul, (c, b))
    entered = graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, True))
    e = graph.call_function(operator.matmul, (d, d))
    graph.call_function(torch.amp.autocast_mode._exit_autocast, (entered,))
    graph.output((graph.call_function(torch.exp, (d,)), e, b))
    device = Device(refused, compile=compile)
    check(device, fx.GraphModule(torch.nn.Module(), graph), torch.randn(4, 4, requires_grad=True))
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")


# ------------------------------------------------------------------ who decides, and what happens where it fails


def test_the_fallback_is_a_backend_and_can_be_chosen():
    other = Device()
    report = check(Device("cos"), chain, X, fallback=other)
    assert other.graphs == [["cos"]]
    assert report.fallback == "device"
    named = Device("cos")
    named.fallback_backend = "aot_eager"
    assert check(named, chain, X).fallback == "aot_eager"
    device = Device()
    with pytest.raises(ValueError, match="can't be its own fallback"):
        resolve_backend(device, fallback=device)


class Chooses:
    """Has a partitioner of its own."""

    name = "chooses"
    capabilities = Capabilities()

    def __init__(self, *parts: Sequence[str]) -> None:
        self.parts, self.graphs = parts, []

    def partition(self, graph, example_inputs, options):
        return [[node for node in graph.graph.nodes if node.name in part] for part in self.parts]

    def compile(self, graph, example_inputs, options):
        self.graphs.append([bare(node) for node in graph.graph.nodes if node.op.startswith("call_")])
        return graph.forward


def test_a_backend_may_choose_its_parts():
    backend = Chooses(["sin", "cos"], ["exp"])
    report = check(backend, chain, X)
    assert backend.graphs == [["sin", "cos"], ["exp"]]
    assert [entry.node for entry in report.refusals] == ["tanh"]
    apart = Chooses(["sin", "cos"], ["tanh", "exp"])
    check(apart, chain, X)
    assert apart.graphs == [["sin", "cos"], ["tanh", "exp"]]


def test_chosen_parts_that_depend_on_each_other_in_a_circle_are_refused():
    with pytest.raises(BackendContractError, match=r"'chooses' chose parts .* in a circle.*cos"):
        check(Chooses(["sin", "tanh"]), chain, X)
    with pytest.raises(BackendContractError, match="the node sin in two parts"):
        check(Chooses(["sin"], ["sin"]), chain, X)


def test_an_answer_that_is_none_is_the_plugins_bug():
    device = Device()
    device.supports = lambda node, options: False
    with pytest.raises(BackendContractError, match=r"answered False to supports\(sin"):
        check(device, chain, X)


@pytest.mark.parametrize(
    "error", [UnsupportedGraph("no", node="tanh"), BackendResourceError("full"), ValueError("bug")]
)
def test_a_part_that_fails_runs_on_the_fallback_where_that_is_asked_for(error):
    def compile(graph, inputs):
        graph.graph.erase_node(graph.graph.output_node())  # what a compiler may do before it fails
        if "tanh" in [node.name for node in graph.graph.nodes]:
            raise error
        return lambda x: (torch.sin(x),)

    with pytest.raises(type(error)):
        check(Device("cos", compile=compile), chain, X)
    report = check(Device("cos", compile=compile), chain, X, on_error="fallback")
    assert [part.backend for part in report.parts] == ["device", "eager", "eager"]
    [failure] = report.failures
    assert failure.part == 2
    kinds = {"UnsupportedGraph": "unsupported", "BackendResourceError": "resource", "ValueError": "bug"}
    assert failure.kind == kinds[failure.error_type]


def test_a_whole_graph_that_fails_runs_on_the_fallback_as_it_was():
    def compile(graph, inputs):
        for node in list(graph.graph.nodes):
            if node.name == "exp":
                node.target = torch.log
        graph.recompile()
        raise ValueError("half way")

    report = check(Device(compile=compile), chain, X, on_error="fallback")
    assert report.outcome == "fallback"
    assert "half way" in str(report)


def test_a_part_that_is_left_to_eager_runs_as_it_is():
    def compile(graph, inputs):
        raise LeftToEager("it can't be done as eager does")

    report = check(Device("cos", compile=compile), chain, X)
    assert [part.backend for part in report.parts] == ["eager", "eager", "eager"]
    assert len(report.failures) == 2


def test_what_a_part_returns_is_checked():
    device = Device("cos", compile=lambda graph, inputs: lambda *given: [])
    with pytest.raises(
        BackendContractError, match=r"backend 'device': what .* returned 0 outputs where the part has 1"
    ):
        check(device, chain, X)


def test_an_unsupported_node_is_told_with_its_call_and_line():
    graph = trace(chain)
    for node in graph.graph.nodes:
        node.meta["stack_trace"] = '  File "model.py", line 7, in forward\n    y = x.tanh()'
    device = Device("tanh", compile=lambda g, i: (_ for _ in ()).throw(UnsupportedGraph("no cos", node="cos")))
    with pytest.raises(UnsupportedGraph, match=r"no cos \(node cos, torch.cos at model.py:7\)"):
        compile_graph(resolve_backend(device), graph, [X])
    report = check(Device("tanh"), graph, X)
    assert str(report.refusals[0]) == "tanh (torch.tanh) at model.py:7: the device has no tanh"


# ------------------------------------------------------------------ forms, plans, torch.compile


def test_operators_are_cut_in_forward_and_backward():
    class Operators(Device):
        graph_form = GraphForm(level="aten")

    device = Operators("cos.default", "tanh_backward.default")
    refused = device.supports
    device.supports = lambda node, options: refused(node, options) if op_text(node) else None
    check(device, chain, X)
    assert all("cos.default" not in ops and "tanh_backward.default" not in ops for ops in device.graphs)
    assert len(device.graphs) > 3


def test_a_plan_compiles_nothing():
    device = Device("cos")
    [plan] = resolve_backend(device).plans(trace(chain), [torch.randn(2)])
    assert device.graphs == []
    assert [(part.on_backend, part.nodes) for part in plan.parts] == [
        (True, ("sin",)),
        (False, ("cos",)),
        (True, ("tanh", "exp")),
    ]
    assert "cos (torch.cos): the device has no cos" in str(plan)
    assert resolve_backend(Device()).plans(trace(chain), [torch.randn(2)])[0].is_whole


def test_torch_compile_is_told_where_nothing_runs_on_the_backend():
    compiler = as_torch_backend(Device("sin", "cos", "tanh", "exp"))
    with pytest.warns(UserWarning, match="nothing of it: all of it runs on 'eager'"):
        compiler(trace(chain), [torch.randn(2)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_torch_backend(Device("sin"))(trace(chain), [torch.randn(2)])
