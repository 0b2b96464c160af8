"""Inputs, unused parts, state, aliasing, example inputs."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from graphwright import graph_breaks as gb
from graphwright.exc import GraphBreak
from graphwright.graph.ambient_state import AmbientState
from graphwright.graph.finished_graph import graph_name
from graphwright.graph.graph_inputs import storage_groups


def targets(finished: Any) -> list[str]:
    return [n.name for n in finished.module.graph.nodes if n.op not in ("placeholder", "output")]


def test_inputs_are_named_by_their_source(tx: Any) -> None:
    module = torch.nn.Linear(2, 2)
    source = tx.capture.roots.local(0, "self").instance_dict().dict_item("_parameters").dict_item("weight")
    weight = tx.wrap(module.weight, source)
    x = tx.input(torch.ones(3, 2), "x")
    again = tx.input(torch.ones(3, 2), "x")
    assert weight.node.name == "l_self_parameters_weight_"
    assert (x.node.name, again.node.name) == ("l_x_", "l_x__1")
    first = next(str(g) for g in tx.capture.guards)
    assert first.startswith("L['self']._parameters['weight']: tensor torch.float32 (2, 2)")


def test_inputs_come_first_whenever_they_are_made(tx: Any) -> None:
    x = tx.input(torch.ones(2))
    y = tx.fn(torch.add, x, 1)
    z = tx.input(torch.ones(2), "z")
    finished = tx.finish(tx.fn(torch.add, y, z))
    assert [n.op for n in finished.module.graph.nodes] == ["placeholder"] * 2 + ["call_function"] * 2 + ["output"]
    assert [e.source.name_hint for e in finished.inputs] == ["x", "z"]


def test_a_tensor_reached_twice_is_one_input(tx: Any) -> None:
    tensor = torch.ones(2)
    x = tx.input(tensor, "x")
    y = tx.wrap(tensor, tx.capture.roots.local(1, "y"))
    assert x is y
    assert "same as" in [str(g) for g in tx.capture.guards][-1]


def test_unused_inputs_and_unused_pure_nodes_go(tx: Any) -> None:
    x, y = tx.input(torch.ones(2, 2), "x"), tx.input(torch.ones(2, 2), "y")
    tx.fn(torch.mul, y, 2)
    tx.fn(torch.max, x, 0)
    finished = tx.finish(tx.fn(torch.add, x, 1))
    assert [str(e.source) for e in finished.inputs] == ["L['x']"]
    assert targets(finished) == ["max_1", "add"]


def test_writes_random_draws_and_what_may_raise_stay(tx: Any) -> None:
    x = tx.input(torch.ones(4), "x")
    i = tx.input(torch.tensor([0, 9]), "i")
    tx.method(x, "add_", 1)
    tx.fn(torch.rand, 2)
    tx.fn(torch.index_select, x, 0, i)
    tx.fn(F.dropout, x, 0.5, True)
    assert targets(tx.finish()) == ["add_", "rand", "index_select", "dropout"]


def test_no_operations_no_graph(tx: Any) -> None:
    x = tx.input(torch.ones(2))
    tx.method(x, "contiguous")
    finished = tx.finish()
    assert finished.module is None
    assert finished.inputs == []


def test_nodes_carry_what_backends_read(tx: Any) -> None:
    x = tx.input(torch.ones(2))
    node = tx.fn(torch.add, x, 1).node
    assert node.meta["example_value"].shape == (2,)
    assert node.meta["stack_trace"] == 'File "user.py", line 1, in fn'
    assert node.meta["source_fn_stack"] == [("add", torch.add)]


def test_generated_code_frees_values_early(tx: Any) -> None:
    x = tx.input(torch.ones(2))
    y = tx.fn(torch.sin, tx.fn(torch.cos, x))
    code = tx.finish(y).module.code
    assert "l_x_ = None" in code
    assert "cos = None" in code


def test_views_share_storage_among_fakes(tx: Any) -> None:
    base = torch.ones(4, 4)
    x, row, other = tx.input(base, "x"), tx.input(base[1], "row"), tx.input(torch.ones(4), "other")
    tx.method(row, "mul_", 2)
    finished = tx.finish(tx.fn(torch.add, x, other))
    output = tx.capture.output
    assert storage_groups(output.inputs) == [0, 0, 1]
    assert [str(e.source) for e in output.mutated_inputs()] == ["L['x']", "L['row']"]
    fakes = dict(zip([str(e.source) for e in finished.inputs], finished.example_inputs, strict=True))
    assert fakes["L['x']"] is not x.fake
    assert fakes["L['other']"] is other.fake
    key = fakes["L['x']"].untyped_storage()._cdata
    assert key == fakes["L['row']"].untyped_storage()._cdata
    assert fakes["L['x']"]._version == 0


def test_empty_tensors_share_nothing(tx: Any) -> None:
    tx.input(torch.ones(0), "x")
    tx.input(torch.ones(0), "y")
    assert storage_groups(tx.capture.output.inputs) == [0, 1]


def test_running_statistics_count_as_written(tx: Any) -> None:
    x, mean, var = tx.input(torch.randn(4, 3)), tx.input(torch.zeros(3), "m"), tx.input(torch.ones(3), "v")
    tx.fn(F.batch_norm, x, mean, var, training=True)
    assert [str(e.source) for e in tx.capture.output.mutated_inputs()] == ["L['m']", "L['v']"]


class TestState:
    def test_grad_mode_is_set_now_and_in_the_graph(self, tx: Any) -> None:
        w = tx.input(torch.nn.Parameter(torch.ones(2)))
        tx.fn(torch._C._set_grad_enabled, False)
        assert not torch.is_grad_enabled()
        inside = tx.fn(torch.mul, w, 2)
        assert not inside.fake.requires_grad
        tx.fn(torch._C._set_grad_enabled, True)
        finished = tx.finish(inside)
        assert finished.changes_state
        assert not finished.state_calls
        (result,) = finished.module(torch.nn.Parameter(torch.ones(2)))
        assert not result.requires_grad

    def test_switches_with_nothing_between_leave_no_node(self, tx: Any) -> None:
        x = tx.input(torch.ones(2))
        y = tx.fn(torch.mul, x, 2)
        for mode in (False, True, True, False, True):
            tx.fn(torch._C._set_grad_enabled, mode)
        assert targets(tx.finish(y)) == ["mul"]

    def test_a_graph_leaves_the_state_it_found(self, tx: Any) -> None:
        x = tx.input(torch.nn.Parameter(torch.ones(2)))
        tx.fn(torch._C._set_grad_enabled, False)
        tx.fn(torch.set_autocast_enabled, "cpu", True)
        tx.fn(torch.autocast_increment_nesting)
        tx.fn(torch.set_autocast_dtype, "cpu", torch.float16)
        finished = tx.finish(tx.fn(torch.mul, x, 2))
        wanted = AmbientState.current()
        finished.entry_state.install()
        before = AmbientState.current()
        finished.module(torch.nn.Parameter(torch.ones(2)))
        assert AmbientState.current() == before
        for function, args in finished.state_calls:
            function(*args)
        assert AmbientState.current() == wanted


class Labelled(torch.Tensor):
    """A tensor of a user's class."""


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        (torch.ones(2, 2).to_sparse(), gb.UNSUPPORTED_VALUE),
        (torch.nn.UninitializedParameter(), gb.TENSOR_SUBCLASS),
        (torch.ones(2).as_subclass(Labelled), gb.TENSOR_SUBCLASS),
    ],
    ids=["sparse", "uninitialized", "subclass"],
)
def test_odd_tensors_are_refused(tx: Any, tensor: torch.Tensor, kind: gb.GraphBreakKind) -> None:
    with pytest.raises(GraphBreak) as caught:
        tx.capture.output.add_input(tx, tensor, tx.capture.roots.local(0, "x"))
    assert caught.value.kind is kind


def test_graph_names_differ() -> None:
    assert graph_name(3).startswith("__compiled_fn_3_")
    assert graph_name(3) != graph_name(3)


def test_operator_nodes(tx: Any) -> None:
    x = tx.input(torch.ones(2))
    y = tx.fn(operator.add, x, 1)
    assert (y.node.op, y.node.target) == ("call_function", operator.add)
