"""What a transform may leave of a graph, and how a fault is told."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import fx

from graphwright_plugins import hookimpl
from graphwright_plugins.errors import HookError
from graphwright_plugins.loading.plugins import Plugins
from graphwright_plugins.torch_compat import as_symbolic, count_of_assumptions, new_fake_mode, shape_env_of_inputs

Change = Callable[[fx.Graph, fx.Node], Any]


def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    z = x * 2
    return z + y, z - y


def captured(function: Callable[..., Any], inputs: Sequence[Any]) -> fx.GraphModule:
    """A graph with what its nodes give noted, as capture leaves it."""
    graph = fx.symbolic_trace(function)

    class Noting(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            n.meta["example_value"] = super().run_node(n)
            return n.meta["example_value"]

    Noting(graph).run(*inputs)
    return graph


def transformed(change: Change, function: Callable[..., Any] = program, inputs: Sequence[Any] = ()) -> fx.GraphModule:
    class Changing:
        @hookimpl
        def transform_graph(self, graph: fx.GraphModule) -> Any:
            return change(graph.graph, graph.graph.output_node())

    inputs = inputs or fakes()
    plugins = Plugins()
    plugins.register(Changing(), "culprit", "dist-c 1.0")
    return plugins.transform(captured(function, inputs), inputs)


def fakes(*, varying: bool = False) -> list[torch.Tensor]:
    mode = new_fake_mode()
    return [as_symbolic(mode, torch.ones(6, 3), [0] if varying else []) for _ in range(2)]


def fault_of(change: Change, function: Callable[..., Any] = program, inputs: Sequence[Any] = ()) -> str:
    with pytest.raises(HookError, match=r"plugin 'culprit' of dist-c 1\.0 broke the graph in its hook") as caught:
        transformed(change, function, inputs)
    assert (caught.value.plugin, caught.value.hook) == ("culprit", "transform_graph")
    assert "GRAPHWRIGHT_DISABLED_PLUGINS=culprit" in str(caught.value)
    return str(caught.value)


def replace_first_output(method: str, *args: Any) -> Change:
    def change(graph: fx.Graph, output: fx.Node) -> None:
        first, second = output.args[0]  # type: ignore[misc]
        with graph.inserting_before(output):
            output.args = ((graph.call_method(method, (first, *args)), second),)  # type: ignore[arg-type]

    return change


def call_instead(old: Any, new: Any) -> Change:
    def change(graph: fx.Graph, output: fx.Node) -> None:
        for node in graph.find_nodes(op="call_function", target=old):
            node.target = new

    return change


def drop_output(graph: fx.Graph, output: fx.Node) -> None:
    output.args = (output.args[0][:1],)  # type: ignore[index]


def no_tuple(graph: fx.Graph, output: fx.Node) -> None:
    output.args = (output.args[0][0],)  # type: ignore[index]


def swap_inputs(graph: fx.Graph, output: fx.Node) -> None:
    first, second = graph.find_nodes(op="placeholder")
    first.prepend(second)


def no_output(graph: fx.Graph, output: fx.Node) -> None:
    graph.erase_node(output)


def literals(graph: fx.Graph, output: fx.Node) -> None:
    output.args = ((None, 3),)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (drop_output, "the graph has 1 outputs instead of 2"),
        (no_tuple, "the graph returns add by itself instead of a tuple of 2 outputs"),
        (no_output, "the graph has no output"),
        (swap_inputs, r"the graph's inputs are (y, x) instead of (x, y)"),
        (literals, "output 0 is None instead of a tensor of torch.float32 of sizes (6, 3) on cpu"),
        (
            replace_first_output("unsqueeze", 0),
            "output 0 is a tensor of torch.float32 of sizes (1, 6, 3)",
        ),
        (replace_first_output("t"), "of sizes (3, 6) on cpu instead of a tensor of torch.float32 of sizes (6, 3)"),
        (replace_first_output("double"), "output 0 is a tensor of torch.float64"),
        (replace_first_output("dim"), "output 0 is the int 2 instead of a tensor"),
        (
            replace_first_output("no_such"),
            "can't be run: Tensor.no_such (node no_such) raised AttributeError",
        ),
        (call_instead(operator.mul, operator.matmul), "operator.matmul (node mul) raised TypeError"),
        (call_instead(operator.add, operator.matmul), "operator.matmul (node add) raised RuntimeError"),
    ],
)
def test_what_a_transform_broke_is_told(change: Change, told: str) -> None:
    assert told in fault_of(change)


def test_what_could_not_run_raised_is_the_cause() -> None:
    with pytest.raises(HookError) as caught:
        transformed(call_instead(operator.mul, operator.matmul))
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize(
    "change",
    [
        lambda graph, output: None,
        replace_first_output("contiguous"),
        replace_first_output("mul", 2),
        call_instead(operator.add, torch.add),
        call_instead(operator.add, lambda x, y: torch.from_numpy(x.numpy() + y.numpy())),  # it need not take fakes
    ],
)
def test_what_keeps_inputs_and_outputs_is_let_through(change: Change) -> None:
    assert isinstance(transformed(change), fx.GraphModule)


def test_an_input_may_have_another_name_in_its_place() -> None:
    def retrace(graph: fx.Graph, output: fx.Node) -> fx.GraphModule:
        return fx.symbolic_trace(lambda a, b: program(a, b))

    assert [node.name for node in transformed(retrace).graph.find_nodes(op="placeholder")] == ["a", "b"]


def test_modules_that_a_transform_adds_hold_real_weights() -> None:
    linear = torch.nn.Linear(3, 3)

    def add_linear(graph: fx.Graph, output: fx.Node) -> None:
        first, second = output.args[0]  # type: ignore[misc]
        assert graph.owning_module is not None
        graph.owning_module.add_submodule("linear", linear)
        with graph.inserting_before(output):
            output.args = ((graph.call_module("linear", (first,)), second),)  # type: ignore[arg-type]

    changed = transformed(add_linear)
    x, y = torch.ones(6, 3), torch.ones(6, 3)
    assert torch.equal(changed(x, y)[0], linear(x * 2 + y))


def test_another_transform_is_held_to_what_was_captured() -> None:
    """The nodes that the first one made have no values noted."""

    class Changing:
        def __init__(self, change: Change) -> None:
            self.change = change

        @hookimpl
        def transform_graph(self, graph: fx.GraphModule) -> None:
            self.change(graph.graph, graph.graph.output_node())

    plugins, inputs = Plugins(), fakes()
    plugins.register(Changing(replace_first_output("mul", 2)), "good")
    plugins.register(Changing(replace_first_output("int")), "bad")
    with pytest.raises(HookError, match=r"plugin 'bad' .*output 0 is a tensor of torch\.int32"):
        plugins.transform(captured(program, inputs), inputs)


def test_state_that_a_failing_graph_set_is_put_back() -> None:
    def change(graph: fx.Graph, output: fx.Node) -> None:
        first = graph.find_nodes(op="placeholder")[0]
        with graph.inserting_after(first):
            graph.call_function(torch._C._set_grad_enabled, (False,))
        call_instead(operator.mul, operator.matmul)(graph, output)

    fault_of(change)
    assert torch.is_grad_enabled()


# ------------------------------------------------------------------ sizes that vary


def varying_program(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
    return x + 1, x.reshape(-1), x.size(0)


def instead(place: int, make: Callable[[fx.Graph, fx.Node], Any]) -> Change:
    def change(graph: fx.Graph, output: fx.Node) -> None:
        results = list(output.args[0])  # type: ignore[arg-type]
        with graph.inserting_before(output):
            results[place] = make(graph, graph.find_nodes(op="placeholder")[0])
        output.args = (tuple(results),)

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (instead(0, lambda g, x: g.call_function(torch.zeros, ((6, 3),))), "of sizes (6, 3) on cpu instead of"),
        (instead(1, lambda g, x: g.call_method("sum", (x, 1))), "output 1 is a tensor of torch.float32 of sizes (s"),
        (instead(0, lambda g, x: g.call_function(torch.cat, ([x, x],))), "of sizes (2*s"),
        (instead(2, lambda g, x: 6), "output 2 is the int 6 instead of the int s"),
        (instead(2, lambda g, x: g.call_method("size", (x, 1))), "output 2 is the int 3 instead of the int s"),
        (instead(2, lambda g, x: g.call_method("numel", (x,))), "output 2 is the int 3*s"),
        (
            instead(2, lambda g, x: g.call_function(float, (g.call_method("size", (x, 1)),))),
            "is the float 3.0",
        ),
    ],
)
def test_sizes_that_vary_are_compared(change: Change, told: str) -> None:
    assert told in fault_of(change, varying_program, fakes(varying=True))


@pytest.mark.parametrize(
    "change",
    [
        instead(0, lambda g, x: g.call_method("add", (x, 1))),
        instead(1, lambda g, x: g.call_method("flatten", (x,))),
        instead(2, lambda g, x: g.call_method("size", (x, 0))),
    ],
)
def test_comparing_sizes_assumes_nothing_of_them(change: Change) -> None:
    inputs = fakes(varying=True)
    env = shape_env_of_inputs(inputs)
    before = count_of_assumptions(env)
    transformed(change, varying_program, inputs)
    assert count_of_assumptions(env) == before


def test_sizes_that_depend_on_values_are_let_through() -> None:
    def finding(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
        return x.nonzero(), y + 1

    assert isinstance(transformed(replace_first_output("contiguous"), finding, fakes()), fx.GraphModule)
