"""Tensors as Python objects: attributes, protocols, state that programs put on them."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

from graphwright import graph_breaks as gb
from graphwright.exc import GraphBreak, ObservedException
from graphwright.variables.sequence import ListVariable, TupleVariable
from graphwright.variables.tensor import TensorVariable


def guards(tx: Any) -> list[str]:
    return [str(g) for g in tx.capture.guards]


def constant(tx: Any, x: TensorVariable, name: str) -> Any:
    return x.getattr(tx, name).realize().as_python_constant()


class TestAttributes:
    @pytest.mark.parametrize(
        "name",
        ["dtype", "device", "ndim", "requires_grad", "layout", "is_cuda", "is_cpu", "itemsize", "nbytes", "shape"],
    )
    @pytest.mark.parametrize("outside", [True, False])
    def test_metadata_is_known(self, tx: Any, name: str, outside: bool) -> None:
        real = torch.ones(2, 3)
        x = tx.input(real) if outside else tx.fn(torch.ones, 2, 3)
        assert constant(tx, x, name) == getattr(real, name)
        assert type(constant(tx, x, name)) is type(getattr(real, name))
        assert len(guards(tx)) == outside

    def test_is_leaf_is_guarded_and_follows_the_trace(self, tx: Any) -> None:
        x, w = tx.input(torch.ones(2)), tx.input(torch.nn.Parameter(torch.ones(2)), "w")
        assert constant(tx, x, "is_leaf") is True
        assert "L['x'].is_leaf: eq True" in guards(tx)
        tx.method(x, "mul_", w)
        assert constant(tx, x, "is_leaf") is False
        assert constant(tx, x, "requires_grad") is True
        assert constant(tx, tx.fn(torch.mul, w, 2), "is_leaf") is False

    def test_classes(self, tx: Any) -> None:
        x, w = tx.input(torch.ones(2)), tx.input(torch.nn.Parameter(torch.ones(2)), "w")
        assert constant(tx, x, "__class__") is torch.Tensor
        assert w.python_type() is torch.nn.Parameter
        assert tx.fn(torch.mul, w, 2).python_type() is torch.Tensor
        assert tx.method(w, "detach").python_type() is torch.Tensor

    def test_gradient_of_an_input_is_looked_up_lazily(self, tx: Any) -> None:
        real = torch.nn.Parameter(torch.ones(2))
        real.grad = torch.full((2,), 3.0)
        w = tx.input(real, "w")
        grad = w.getattr(tx, "grad")
        assert len(tx.capture.output.inputs) == 1
        assert isinstance(grad.realize(), TensorVariable)
        assert str(grad.source) == "L['w'].grad"
        assert tx.input(torch.ones(1), "x").getattr(tx, "grad").realize().as_python_constant() is None
        assert tx.fn(torch.mul, w, 2).getattr(tx, "grad").as_python_constant() is None

    def test_gradient_of_an_inner_result_from_outside_breaks(self, tx: Any) -> None:
        x = tx.input(torch.ones(2, requires_grad=True) * 2)
        with pytest.raises(GraphBreak):
            x.getattr(tx, "grad")

    def test_methods_are_values(self, tx: Any) -> None:
        x = tx.input(torch.ones(2))
        method = x.getattr(tx, "add")
        assert tx.call(method, [x]).fake.shape == (2,)
        assert method.hash_key(tx) == x.getattr(tx, "add").hash_key(tx)
        assert tx.call(x.getattr(tx, "size"), []).as_python_constant() == (2,)

    def test_attribute_put_on_a_tensor_outside(self, tx: Any) -> None:
        real = torch.ones(2)
        real.scale = 3  # type: ignore[attr-defined]
        x = tx.input(real)
        assert constant(tx, x, "scale") == 3
        assert "L['x'].scale: eq 3" in guards(tx)

    def test_missing_attribute(self, tx: Any) -> None:
        x = tx.input(torch.nn.Parameter(torch.ones(2)))
        with pytest.raises(ObservedException) as caught:
            x.getattr(tx, "scale")
        assert repr(caught.value.value.value) == repr(AttributeError("'Parameter' object has no attribute 'scale'"))
        assert "L['x'].__dict__: dict_lacks 'scale'" in guards(tx)

    def test_constants_of_the_class(self, tx: Any) -> None:
        assert constant(tx, tx.input(torch.ones(2)), "__array_priority__") == 1000

    @pytest.mark.parametrize("name", ["_version", "_base", "output_nr", "__dict__", "_backward_hooks"])
    def test_what_guards_do_not_hold_breaks(self, tx: Any, name: str) -> None:
        with pytest.raises(GraphBreak):
            tx.input(torch.ones(2)).getattr(tx, name)

    def test_history(self, tx: Any) -> None:
        x, w = tx.input(torch.ones(2)), tx.input(torch.nn.Parameter(torch.ones(2)), "w")
        assert constant(tx, x, "grad_fn") is None
        with pytest.raises(GraphBreak):
            tx.fn(torch.mul, w, 2).getattr(tx, "grad_fn")


class TestSetting:
    def test_new_attribute(self, tx: Any) -> None:
        x = tx.input(torch.ones(2))
        x.setattr(tx, "tag", tx.wrap("a"))
        assert constant(tx, x, "tag") == "a"
        assert list(tx.capture.effects.mutated) == [x]
        x.delattr(tx, "tag")
        with pytest.raises(ObservedException):
            x.getattr(tx, "tag")

    def test_attribute_of_an_inner_tensor_is_no_effect(self, tx: Any) -> None:
        y = tx.fn(torch.ones, 2)
        y.setattr(tx, "tag", tx.wrap("a"))
        assert constant(tx, y, "tag") == "a"
        assert tx.capture.effects.is_empty()

    def test_deleting_an_outside_attribute(self, tx: Any) -> None:
        real = torch.ones(2)
        real.tag = 1  # type: ignore[attr-defined]
        x = tx.input(real)
        x.delattr(tx, "tag")
        assert x.attributes == {"tag": None}
        with pytest.raises(ObservedException):
            x.delattr(tx, "tag")

    def test_gradient(self, tx: Any) -> None:
        w = tx.input(torch.nn.Parameter(torch.ones(2)), "w")
        w.setattr(tx, "grad", tx.fn(torch.ones, 2))
        assert w.getattr(tx, "grad").fake.shape == (2,)
        w.setattr(tx, "grad", tx.wrap(None))
        assert constant(tx, w, "grad") is None
        with pytest.raises(GraphBreak):
            w.setattr(tx, "grad", tx.fn(torch.ones, 3))

    def test_requires_grad(self, tx: Any) -> None:
        x, y = tx.input(torch.ones(2)), tx.fn(torch.ones, 2)
        with pytest.raises(GraphBreak) as caught:
            y.setattr(tx, "requires_grad", tx.wrap(True))
        assert caught.value.kind is gb.BACKWARD_INSIDE
        x.setattr(tx, "requires_grad", tx.wrap(False))
        with pytest.raises(GraphBreak) as caught:
            x.setattr(tx, "requires_grad", tx.wrap(True))
        assert caught.value.kind is gb.INPUT_METADATA_MUTATION

    @pytest.mark.parametrize("name", ["data", "__class__", "is_leaf", "shape", "_backward_hooks"])
    def test_what_is_not_followed(self, tx: Any, name: str) -> None:
        x = tx.input(torch.ones(2))
        with pytest.raises(GraphBreak):
            x.setattr(tx, name, tx.fn(torch.ones, 2))

    def test_replay_sets_and_deletes(self, tx: Any) -> None:
        class Recorder:
            def __init__(self) -> None:
                self.ops: list[Any] = []

            def __call__(self, value: Any) -> None:
                self.ops.append(value)

            def op(self, *args: Any) -> None:
                self.ops.append(args)

            def load_constant(self, value: Any) -> None:
                self.ops.append(value)

        real = torch.ones(2)
        real.old = 1  # type: ignore[attr-defined]
        x = tx.input(real)
        value = tx.wrap("a")
        x.setattr(tx, "tag", value)
        x.delattr(tx, "old")
        emit = Recorder()
        x.replay(emit)
        assert emit.ops == [value, x, ("store_attr", "tag"), delattr, x, "old", ("call", 2), ("pop_top",)]


class TestProtocols:
    def test_iteration_unbinds(self, tx: Any) -> None:
        x = tx.input(torch.ones(3, 2))
        rows = x.unpack(tx)
        assert [r.fake.shape for r in rows] == [(2,)] * 3
        assert x.length(tx).as_python_constant() == 3
        iterator = x.iterate(tx)
        assert iterator.next_item(tx).fake.shape == (2,)

    @pytest.mark.parametrize(
        ("act", "message"), [("unpack", "iteration over a 0-d tensor"), ("length", "len() of a 0-d tensor")]
    )
    def test_scalars_are_no_sequences(self, tx: Any, act: str, message: str) -> None:
        x = tx.input(torch.tensor(1.0))
        with pytest.raises(ObservedException) as caught:
            getattr(x, act)(tx)
        assert repr(caught.value.value.value) == repr(TypeError(message))

    def test_items(self, tx: Any) -> None:
        x = tx.input(torch.zeros(3, 2))
        assert x.getitem(tx, tx.wrap(0)).fake.shape == (2,)
        x.setitem(tx, tx.wrap(0), tx.wrap(1.0))
        assert tx.method(x, "__getitem__", 1).fake.shape == (2,)
        index = TupleVariable([tx.wrap(slice(None)), ListVariable([tx.wrap(0), tx.wrap(1)])])
        assert x.getitem(tx, index).fake.shape == (3, 2)

    def test_hash_is_identity(self, tx: Any) -> None:
        x, y = tx.input(torch.ones(2)), tx.input(torch.ones(2), "y")
        assert x.hash_key(tx) == x.hash_key(tx)
        assert x.hash_key(tx) != y.hash_key(tx)

    def test_calling(self, tx: Any) -> None:
        with pytest.raises(ObservedException) as caught:
            tx.call(tx.input(torch.ones(2)), [])
        assert repr(caught.value.value.value) == repr(TypeError("'Tensor' object is not callable"))

    def test_operators_leave_other_objects_their_turn(self, tx: Any) -> None:
        x = tx.input(torch.ones(2))
        other = tx.wrap(object())
        assert tx.method(x, "__add__", other).as_python_constant() is NotImplemented
        assert tx.fn(operator.eq, x, None).as_python_constant() is False

    def test_a_function_that_the_program_put_on_the_class(self, tx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def double(self: Any) -> Any:
            return self * 2

        monkeypatch.setattr(torch.Tensor, "double_it", double, raising=False)
        x = tx.input(torch.ones(2))
        calls = []
        monkeypatch.setattr(tx, "call", lambda fn, args, kwargs=None: calls.append(fn))
        x.call_method(tx, "double_it", [], {})
        assert calls
        assert tx.inlined == []


class TestState:
    @pytest.mark.parametrize(
        ("fn", "args"),
        [
            (torch.is_grad_enabled, ()),
            (torch.get_default_dtype, ()),
            (torch.is_autocast_enabled, ("cpu",)),
            (torch.get_autocast_dtype, ("cpu",)),
            (torch.cuda.is_available, ()),
            (torch.are_deterministic_algorithms_enabled, ()),
            (torch.device, ("cuda", 1)),
        ],
    )
    def test_questions_are_answered_now(self, tx: Any, fn: Any, args: Any) -> None:
        assert tx.fn(fn, *args).as_python_constant() == fn(*args)
        assert tx.nodes() == []

    def test_limits_of_dtypes(self, tx: Any) -> None:
        limits = tx.fn(torch.finfo, torch.float16)
        assert limits.getattr(tx, "max").as_python_constant() == 65504.0

    def test_libraries_are_told_that_a_compiler_is_at_work(self, tx: Any) -> None:
        assert tx.fn(torch.compiler.is_compiling).as_python_constant() is True
        assert tx.fn(torch.jit.is_scripting).as_python_constant() is False
        assert tx.fn(torch.jit.is_tracing).as_python_constant() is False
        assert tx.fn(torch._C._get_tracing_state).as_python_constant() is None

    def test_torch_function(self, tx: Any) -> None:
        x = tx.input(torch.ones(2))
        assert tx.fn(torch.overrides.has_torch_function_unary, x).as_python_constant() is False
        assert tx.fn(torch.overrides.has_torch_function_variadic, x, x, None).as_python_constant() is False
        assert tx.fn(torch.overrides.has_torch_function, TupleVariable([x])).as_python_constant() is False
        assert tx.fn(torch.overrides.is_tensor_like, x).as_python_constant() is True

    def test_sizes(self, tx: Any) -> None:
        size = tx.fn(torch.Size, ListVariable([tx.wrap(2), tx.wrap(3)]))
        assert (size.cls, size.as_python_constant()) == (torch.Size, torch.Size([2, 3]))

    def test_errors_of_questions_are_the_programs(self, tx: Any) -> None:
        with pytest.raises(ObservedException):
            tx.fn(torch.device, "no such device")


def test_tensor_of_tensors_is_cut_off_from_history(tx: Any) -> None:
    w = tx.input(torch.nn.Parameter(torch.ones(())), "w")
    made = tx.fn(torch.tensor, ListVariable([w, tx.wrap(2)]))
    assert (made.fake.shape, made.fake.dtype, made.fake.requires_grad) == ((2,), torch.float32, False)
    with pytest.raises(GraphBreak) as caught:
        tx.fn(torch.tensor, ListVariable([w, ListVariable([w])]))
    assert caught.value.kind is gb.TORCH_OP_FAILED
