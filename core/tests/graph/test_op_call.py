"""What an operation on variables refuses, keeps, and takes for known."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from graphwright import graph_breaks as gb
from graphwright.exc import GraphBreak
from graphwright.variables.base import VariableTracker
from graphwright.variables.sequence import TupleVariable
from graphwright.variables.tensor import TensorVariable

BREAKS: dict[str, tuple[gb.GraphBreakKind, Callable[[Any, Any], Any]]] = {
    "nonzero": (gb.DATA_DEPENDENT_VALUE, lambda tx, x: tx.method(x, "nonzero")),
    "mask index": (gb.DATA_DEPENDENT_VALUE, lambda tx, x: tx.fn(operator.getitem, x, tx.fn(torch.gt, x, 0))),
    "unique": (gb.DATA_DEPENDENT_VALUE, lambda tx, x: tx.fn(torch.unique, x)),
    "equal": (gb.DATA_DEPENDENT_VALUE, lambda tx, x: tx.fn(torch.equal, x, x)),
    "values read in C++": (
        gb.DATA_DEPENDENT_VALUE,
        lambda tx, x: tx.fn(torch.tensor_split, x, tx.fn(torch.tensor, [1, 2])),
    ),
    "item": (gb.DATA_DEPENDENT_VALUE, lambda tx, x: tx.method(tx.method(x, "sum"), "item")),
    "tolist": (gb.DATA_DEPENDENT_VALUE, lambda tx, x: tx.method(x, "tolist")),
    "numpy": (gb.DATA_DEPENDENT_VALUE, lambda tx, x: tx.method(x, "numpy")),
    "int": (gb.DATA_DEPENDENT_VALUE, lambda tx, x: tx.fn(int, tx.method(x, "sum"))),
    "float": (gb.DATA_DEPENDENT_VALUE, lambda tx, x: tx.method(tx.method(x, "sum"), "__float__")),
    "contains": (gb.DATA_DEPENDENT_VALUE, lambda tx, x: tx.method(x, "__contains__", 1.0)),
    "percent": (gb.DATA_DEPENDENT_VALUE, lambda tx, x: tx.fn(operator.mod, "%s", x)),
    "truth": (gb.DATA_DEPENDENT_BRANCH, lambda tx, x: tx.method(x, "sum").truth(tx)),
    "truth of many": (gb.TORCH_OP_FAILED, lambda tx, x: x.truth(tx)),
    "shape error": (gb.TORCH_OP_FAILED, lambda tx, x: tx.fn(torch.matmul, x, x)),
    "index error": (gb.TORCH_OP_FAILED, lambda tx, x: tx.fn(operator.getitem, x, 7)),
    "type error": (gb.TORCH_OP_FAILED, lambda tx, x: tx.fn(torch.add, x, "a")),
    "missing argument": (gb.TORCH_OP_FAILED, lambda tx, x: tx.fn(torch.add, x)),
    "resize_": (gb.INPUT_METADATA_MUTATION, lambda tx, x: tx.method(x, "resize_", 2)),
    "set_": (gb.INPUT_METADATA_MUTATION, lambda tx, x: tx.method(x, "set_", x)),
    "t_": (gb.INPUT_METADATA_MUTATION, lambda tx, x: tx.method(x, "t_")),
    "unsqueeze_": (gb.INPUT_METADATA_MUTATION, lambda tx, x: tx.method(x, "unsqueeze_", 0)),
    "requires_grad_": (gb.INPUT_METADATA_MUTATION, lambda tx, x: tx.method(x, "requires_grad_")),
    "requires_grad_ inside": (
        gb.BACKWARD_INSIDE,
        lambda tx, x: tx.method(tx.fn(torch.add, x, 1), "requires_grad_"),
    ),
    "leaf made inside": (gb.BACKWARD_INSIDE, lambda tx, x: tx.fn(torch.ones, 2, requires_grad=True)),
    "out resizes": (
        gb.INPUT_METADATA_MUTATION,
        lambda tx, x: tx.fn(torch.add, tx.fn(torch.ones, 5, 5), 1, out=x),
    ),
    "generator": (gb.RANDOM_STATE, lambda tx, x: tx.fn(torch.rand, 2, generator=torch.Generator())),
    "manual_seed": (gb.RANDOM_STATE, lambda tx, x: tx.fn(torch.random.manual_seed, 0)),
    "backward": (gb.BACKWARD_INSIDE, lambda tx, x: tx.method(x, "backward")),
    "hook": (gb.BACKWARD_INSIDE, lambda tx, x: tx.method(x, "register_hook", len)),
    "autograd.grad": (gb.BACKWARD_INSIDE, lambda tx, x: tx.fn(torch.autograd.grad, x, x)),
    "functionalize": (gb.HIGHER_ORDER, lambda tx, x: tx.fn(torch.func.functionalize, len)),
    "while_loop": (gb.HIGHER_ORDER, lambda tx, x: tx.fn(torch.while_loop, len, len, ())),
    "parameter": (gb.UNSUPPORTED_TORCH, lambda tx, x: tx.fn(torch.nn.Parameter, x)),
    "data_ptr": (gb.UNSUPPORTED_TORCH, lambda tx, x: tx.method(x, "data_ptr")),
    "inference mode": (gb.CONTEXT_MANAGER, lambda tx, x: tx.fn(torch.inference_mode)),
    "not a graph argument": (gb.UNSUPPORTED_TORCH, lambda tx, x: tx.fn(torch.add, x, object())),
}


@pytest.mark.parametrize("name", BREAKS)
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_breaks(tx: Any, name: str) -> None:
    kind, program = BREAKS[name]
    x = tx.input(torch.ones(3, 2))
    with pytest.raises(GraphBreak) as caught:
        program(tx, x)
    assert caught.value.kind is kind
    assert caught.value.detail


def test_a_failed_operation_leaves_no_node(tx: Any) -> None:
    x = tx.input(torch.ones(3, 2))
    with pytest.raises(GraphBreak):
        tx.fn(torch.matmul, x, x)
    assert tx.nodes() == []


SAME: dict[str, Callable[[Any, Any], Any]] = {
    "contiguous": lambda tx, x: tx.method(x, "contiguous"),
    "to": lambda tx, x: tx.method(x, "to", "cpu"),
    "float": lambda tx, x: tx.method(x, "float"),
    "add_": lambda tx, x: tx.method(x, "add_", 1),
    "iadd": lambda tx, x: tx.fn(operator.iadd, x, 1),
    "dropout off": lambda tx, x: tx.fn(F.dropout, x, 0.5, False),
    "relu in place": lambda tx, x: tx.fn(F.relu, x, inplace=True),
    "real": lambda tx, x: x.getattr(tx, "real"),
    "out": lambda tx, x: tx.fn(torch.mul, x, 2, out=x),
    "cpu": lambda tx, x: tx.method(x, "cpu"),
}


@pytest.mark.parametrize("name", SAME)
def test_a_result_that_is_an_argument_is_its_variable(tx: Any, name: str) -> None:
    x = tx.input(torch.ones(3, 2))
    assert SAME[name](tx, x) is x
    assert len(tx.nodes()) == (name in ("add_", "iadd", "relu in place", "out"))


def test_questions_leave_no_node(tx: Any) -> None:
    x = tx.input(torch.ones(3, 2))
    size = tx.method(x, "size")
    assert isinstance(size, TupleVariable)
    assert (size.cls, size.as_python_constant()) == (torch.Size, (3, 2))
    assert tx.method(x, "size", 0).as_python_constant() == 3
    assert tx.fn(torch.is_tensor, x).as_python_constant() is True
    assert tx.fn(torch.broadcast_shapes, (2, 1), (1, 3)).as_python_constant() == (2, 3)
    assert tx.nodes() == []


def test_named_results(tx: Any) -> None:
    x = tx.input(torch.randn(3, 2))
    result = tx.fn(torch.max, x, 1)
    assert result.python_type() is torch.return_types.max
    assert result.getattr(tx, "indices") is result.items[1]


def test_custom_operators(tx: Any) -> None:
    @torch.library.custom_op("graphwright_tests::scale", mutates_args=())
    def scale(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    @scale.register_fake
    def _(x: torch.Tensor, by: float) -> torch.Tensor:
        return torch.empty_like(x)

    @torch.library.custom_op("graphwright_tests::bump", mutates_args={"x"})
    def bump(x: torch.Tensor) -> None:
        x += 1

    x = tx.input(torch.ones(2))
    y = tx.fn(scale, x, 3.0)
    assert tx.fn(bump, x).as_python_constant() is None
    assert len(tx.capture.output.mutated_inputs()) == 1
    real = torch.ones(2)
    finished = tx.finish(y)
    assert [n.target for n in finished.module.graph.nodes if n.op == "call_function"] == [
        torch.ops.graphwright_tests.scale.default,
        torch.ops.graphwright_tests.bump.default,
    ]
    (result,) = finished.module(real)
    assert torch.equal(result, torch.full((2,), 3.0))
    assert torch.equal(real, torch.full((2,), 2.0))


def test_functions_with_arguments_that_are_no_graph_arguments_are_inlined(tx: Any) -> None:
    x = tx.input(torch.ones(3, 2))

    def distance(a: Any, b: Any) -> Any:
        return a - b

    tx.fn(F.triplet_margin_with_distance_loss, x, x, x, distance_function=distance)
    assert [inlined.fn for inlined in tx.inlined] == [F.triplet_margin_with_distance_loss]


def test_number_subclasses_become_numbers(tx: Any) -> None:
    import enum

    import numpy as np

    class Level(enum.IntEnum):
        HIGH = 3

    x = tx.input(torch.ones(2))
    y = tx.fn(torch.mul, x, Level.HIGH)
    assert type(y.node.args[1]) is int

    class Number(VariableTracker):
        def as_proxy(self) -> Any:
            return np.float32(2.5)

    z = tx.fn(torch.mul, x, Number())
    assert type(z.node.args[1]) is float
    assert z.fake.dtype is torch.float32


def test_constants_can_be_asked_for_their_value(tx: Any) -> None:
    five = tx.fn(torch.tensor, 5)
    assert isinstance(five, TensorVariable)
    assert tx.method(five, "item").as_python_constant() == 5
    assert five.truth(tx) is True
    tx.method(five, "add_", 1)
    with pytest.raises(GraphBreak):
        tx.method(tx.fn(torch.add, five, tx.input(torch.ones(()))), "item")


def test_what_is_tried_on_fakes_makes_no_noise(tx: Any, caplog: Any, capsys: Any) -> None:
    import warnings

    x = tx.input(torch.ones(3, 2))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        tx.fn(F.softmax, x)
        with pytest.raises(GraphBreak):
            tx.fn(torch.mm, x, x)
    assert shown == []
    assert not caplog.records
    assert capsys.readouterr().err == ""


def test_inference_mode_sees_writes(tx: Any) -> None:
    with torch.inference_mode():
        x = tx.input(torch.ones(2))
        tx.method(x, "add_", 1)
        assert len(tx.capture.output.mutated_inputs()) == 1
