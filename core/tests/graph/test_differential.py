"""The same small programs on tensors and on variables: values, metadata, changes of inputs, exceptions."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from graphwright.builtin_calls.tensors import tensor_operator
from graphwright.variables.base import VariableTracker
from graphwright.variables.tensor import TensorVariable


class Eager:
    """Does what a program asks on real tensors."""

    def fn(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    op = fn

    def method(self, owner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(owner, name)(*args, **kwargs)

    def attr(self, owner: Any, name: str) -> Any:
        return getattr(owner, name)

    def item(self, owner: Any, index: int) -> Any:
        return owner[index]


class Symbolic:
    """Does the same on variables."""

    def __init__(self, tx: Any) -> None:
        self.tx = tx

    def vt(self, value: Any) -> VariableTracker:
        return value if isinstance(value, VariableTracker) else self.tx.wrap(value)

    def fn(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        return self.tx.fn(fn, *map(self._nested, args), **{k: self._nested(v) for k, v in kwargs.items()})

    def _nested(self, value: Any) -> VariableTracker:
        if isinstance(value, list):
            from graphwright.variables.sequence import ListVariable

            return ListVariable([self._nested(v) for v in value])
        if isinstance(value, tuple) and not isinstance(value, torch.Size):
            from graphwright.variables.sequence import TupleVariable

            return TupleVariable([self._nested(v) for v in value])
        return self.vt(value)

    def op(self, fn: Any, *args: Any) -> Any:
        result = tensor_operator(self.tx, fn, [self._nested(a) for a in args])
        assert result is not None
        return result

    def method(self, owner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return self.tx.method(owner, name, *map(self._nested, args), **{k: self._nested(v) for k, v in kwargs.items()})

    def attr(self, owner: Any, name: str) -> Any:
        return owner.getattr(self.tx, name).realize()

    def item(self, owner: Any, index: int) -> Any:
        return owner.items[index]


def inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, generator=generator)
    w = torch.nn.Parameter(torch.randn(3, 4, generator=generator))
    i = torch.tensor([2, 0, 1])
    wide = torch.randn(4, 6, generator=generator)[:, ::2]
    return [x, w, i, wide]


PROGRAMS: dict[str, Callable[..., Any]] = {
    "add": lambda t, x, w, i, v: t.op(operator.add, x, w),
    "radd": lambda t, x, w, i, v: t.op(operator.add, 2, x),
    "rsub": lambda t, x, w, i, v: t.op(operator.sub, 2.5, w),
    "rpow": lambda t, x, w, i, v: t.op(operator.pow, 2, i),
    "floordiv": lambda t, x, w, i, v: t.op(operator.floordiv, i, 2),
    "mod": lambda t, x, w, i, v: t.op(operator.mod, x, 2),
    "matmul": lambda t, x, w, i, v: t.op(operator.matmul, x, v),
    "compare": lambda t, x, w, i, v: t.op(operator.lt, x, w),
    "eq none": lambda t, x, w, i, v: t.op(operator.eq, x, None),
    "neg": lambda t, x, w, i, v: t.op(operator.neg, x),
    "abs": lambda t, x, w, i, v: t.op(builtins.abs, x),
    "invert": lambda t, x, w, i, v: t.op(operator.invert, i),
    "iadd": lambda t, x, w, i, v: t.op(operator.iadd, x, 1),
    "iadd int left": lambda t, x, w, i, v: t.op(operator.iadd, 1, x),
    "imul view": lambda t, x, w, i, v: t.op(operator.imul, t.op(operator.getitem, x, 0), 3),
    "linear": lambda t, x, w, i, v: t.fn(F.linear, x, w),
    "softmax": lambda t, x, w, i, v: t.fn(F.softmax, x, dim=-1),
    "relu inplace": lambda t, x, w, i, v: t.fn(F.relu, x, inplace=True),
    "dropout off": lambda t, x, w, i, v: t.fn(F.dropout, x, 0.5, False),
    "dropout": lambda t, x, w, i, v: t.fn(F.dropout, x, 0.5, True),
    "rand": lambda t, x, w, i, v: (t.fn(torch.rand, 3, 4), t.fn(torch.randn_like, x)),
    "max pool": lambda t, x, w, i, v: t.fn(F.max_pool2d, t.method(x, "reshape", 1, 3, 4), 2),
    "max pool indices": lambda t, x, w, i, v: t.fn(
        F.max_pool2d, t.method(x, "reshape", 1, 3, 4), 2, return_indices=True
    ),
    "max": lambda t, x, w, i, v: t.fn(torch.max, x, 1),
    "max values": lambda t, x, w, i, v: t.attr(t.fn(torch.max, w, dim=1), "values"),
    "topk": lambda t, x, w, i, v: t.method(x, "topk", 2, dim=1),
    "sort method": lambda t, x, w, i, v: t.method(x, "sort", descending=True),
    "split": lambda t, x, w, i, v: t.method(x, "split", [1, 2], 0),
    "chunk": lambda t, x, w, i, v: t.fn(torch.chunk, w, 2, 1),
    "cat": lambda t, x, w, i, v: t.fn(torch.cat, [x, w], dim=1),
    "stack": lambda t, x, w, i, v: t.fn(torch.stack, (x, x)),
    "where": lambda t, x, w, i, v: t.fn(torch.where, t.op(operator.gt, x, 0), x, 0.0),
    "einsum": lambda t, x, w, i, v: t.fn(torch.einsum, "ij,kj->ik", x, w),
    "meshgrid": lambda t, x, w, i, v: t.fn(torch.meshgrid, i, i, indexing="ij"),
    "index": lambda t, x, w, i, v: t.op(operator.getitem, x, i),
    "index ellipsis": lambda t, x, w, i, v: t.op(operator.getitem, x, (Ellipsis, 0)),
    "index none": lambda t, x, w, i, v: t.op(operator.getitem, x, (None, slice(0, 2), 1)),
    "index list": lambda t, x, w, i, v: t.op(operator.getitem, x, [0, 2]),
    "index bool": lambda t, x, w, i, v: t.op(operator.getitem, x, True),
    "slice step": lambda t, x, w, i, v: t.op(operator.getitem, x, (slice(None), slice(None, None, 2))),
    "setitem": lambda t, x, w, i, v: (t.op(operator.setitem, x, 0, 1.0), x)[1],
    "setitem mask": lambda t, x, w, i, v: (t.op(operator.setitem, x, t.op(operator.gt, x, 0), 0), x)[1],
    "setitem tensor": lambda t, x, w, i, v: (t.op(operator.setitem, x, (slice(None), 1), i), t.op(operator.add, x, 1))[
        1
    ],
    "add_": lambda t, x, w, i, v: t.method(x, "add_", 1),
    "mul_ by parameter": lambda t, x, w, i, v: t.method(x, "mul_", w),
    "view add_": lambda t, x, w, i, v: (t.method(t.method(x, "view", -1), "add_", 1), t.op(operator.mul, x, 2))[1],
    "out": lambda t, x, w, i, v: t.fn(torch.add, v[0] if False else x, 1, out=t.fn(torch.empty, 3, 4)),
    "contiguous": lambda t, x, w, i, v: t.method(x, "contiguous"),
    "contiguous of view": lambda t, x, w, i, v: t.method(v, "contiguous"),
    "to same": lambda t, x, w, i, v: t.method(x, "to", torch.float32),
    "to double": lambda t, x, w, i, v: t.method(w, "to", torch.float64),
    "to python type": lambda t, x, w, i, v: t.method(x, "to", dtype=torch.int64),
    "float": lambda t, x, w, i, v: t.method(i, "float"),
    "type as": lambda t, x, w, i, v: t.method(i, "type_as", x),
    "transpose": lambda t, x, w, i, v: t.attr(x, "T"),
    "mT": lambda t, x, w, i, v: t.attr(w, "mT"),
    "real": lambda t, x, w, i, v: t.attr(x, "real"),
    "data": lambda t, x, w, i, v: t.attr(w, "data"),
    "data in place": lambda t, x, w, i, v: (t.method(t.attr(w, "data"), "add_", 1), t.op(operator.mul, w, 2))[1],
    "detach": lambda t, x, w, i, v: t.method(w, "detach"),
    "detach in place": lambda t, x, w, i, v: (t.method(t.method(w, "detach"), "mul_", 2), w)[1],
    "detach_ intermediate": lambda t, x, w, i, v: t.op(operator.mul, t.method(t.op(operator.mul, w, 2), "detach_"), 3),
    "t_ intermediate": lambda t, x, w, i, v: t.op(operator.add, t.method(t.op(operator.mul, x, 2), "t_"), 0),
    "unsqueeze_ intermediate": lambda t, x, w, i, v: t.method(t.op(operator.mul, x, 2), "unsqueeze_", 0),
    "requires_grad_ no change": lambda t, x, w, i, v: t.method(w, "requires_grad_", True),
    "zeros": lambda t, x, w, i, v: t.fn(torch.zeros, t.attr(x, "shape"), dtype=torch.int64),
    "arange": lambda t, x, w, i, v: t.fn(torch.arange, 3, device=t.attr(x, "device")),
    "tensor": lambda t, x, w, i, v: t.fn(torch.tensor, [[1, 2], [3, 4]], dtype=torch.float64),
    "tensor of tensors": lambda t, x, w, i, v: t.fn(torch.tensor, [t.method(x, "sum"), 2, t.method(i, "sum")]),
    "as_tensor": lambda t, x, w, i, v: t.fn(torch.as_tensor, x),
    "as_tensor list": lambda t, x, w, i, v: t.fn(torch.as_tensor, [1.5, 2]),
    "legacy": lambda t, x, w, i, v: t.fn(torch.LongTensor, [1, 2]),
    "item of constant": lambda t, x, w, i, v: t.method(t.fn(torch.tensor, 5), "item"),
    "embedding": lambda t, x, w, i, v: t.fn(F.embedding, i, w),
    "layer norm": lambda t, x, w, i, v: t.fn(F.layer_norm, x, (4,), None, None, 1e-5),
    "batch norm": lambda t, x, w, i, v: (
        t.fn(
            F.batch_norm,
            x,
            t.op(operator.getitem, v, (slice(None), 0)),
            t.method(t.fn(torch.ones, 4), "clone"),
            training=True,
        ),
        v,
    ),
    "cross entropy": lambda t, x, w, i, v: t.fn(F.cross_entropy, w, i),
    "attention": lambda t, x, w, i, v: t.fn(
        F.scaled_dot_product_attention,
        t.op(operator.getitem, x, None),
        t.op(operator.getitem, w, None),
        t.op(operator.getitem, x, None),
        is_causal=True,
    ),
    "interpolate": lambda t, x, w, i, v: t.fn(F.interpolate, t.op(operator.getitem, x, None), scale_factor=2),
    "unbound method": lambda t, x, w, i, v: t.fn(torch.Tensor.add, x, w, alpha=2),
    "unbound python method": lambda t, x, w, i, v: t.fn(torch.Tensor.split, x, 2),
    "aten op": lambda t, x, w, i, v: t.fn(torch.ops.aten.add.Tensor, x, w, alpha=3),
    "aten packet": lambda t, x, w, i, v: t.fn(torch.ops.aten.mul, x, w),
    "foreach": lambda t, x, w, i, v: t.fn(torch._foreach_add, [x, v], 1),
    "foreach in place": lambda t, x, w, i, v: (t.fn(torch._foreach_add_, [x, v], 1), x, v)[1:],
    "expand": lambda t, x, w, i, v: t.method(t.op(operator.getitem, x, (slice(0, 1),)), "expand", 3, -1),
    "permute flatten": lambda t, x, w, i, v: t.method(t.method(v, "permute", 1, 0), "flatten"),
    "masked fill": lambda t, x, w, i, v: t.method(w, "masked_fill", t.op(operator.gt, x, 0), float("-inf")),
    "fft": lambda t, x, w, i, v: t.fn(torch.fft.fft, x),
    "complex parts": lambda t, x, w, i, v: (lambda c: (t.attr(c, "real"), t.attr(c, "imag")))(t.fn(torch.fft.fft, x)),
    "linalg": lambda t, x, w, i, v: t.fn(torch.linalg.qr, x),
    "unbind": lambda t, x, w, i, v: t.fn(torch.unbind, w, 1),
    "broadcast_tensors": lambda t, x, w, i, v: t.fn(torch.broadcast_tensors, t.op(operator.getitem, x, 0), w),
    "one hot": lambda t, x, w, i, v: t.fn(F.one_hot, i, 5),
    "pad": lambda t, x, w, i, v: t.fn(F.pad, x, (1, 1)),
    "normalize": lambda t, x, w, i, v: t.fn(F.normalize, w, dim=1),
    "pow": lambda t, x, w, i, v: t.op(builtins.pow, x, 2),
    "nan": lambda t, x, w, i, v: t.op(operator.mul, x, float("nan")),
    "complex scalar": lambda t, x, w, i, v: t.op(operator.mul, x, 1j),
    "std of bool": lambda t, x, w, i, v: t.method(t.op(operator.gt, x, 0), "sum"),
    "result_type": lambda t, x, w, i, v: t.fn(torch.result_type, x, i),
    "size": lambda t, x, w, i, v: t.method(x, "size"),
    "stride": lambda t, x, w, i, v: t.method(v, "stride"),
    "numel": lambda t, x, w, i, v: t.fn(torch.numel, x),
    "is_floating_point": lambda t, x, w, i, v: t.fn(torch.is_floating_point, i),
    "type string": lambda t, x, w, i, v: t.method(x, "type"),
    "no grad": lambda t, x, w, i, v: _no_grad(t, w),
    "autocast": lambda t, x, w, i, v: _autocast(t, x, w),
}


def _no_grad(t: Any, w: Any) -> Any:
    t.fn(torch._C._set_grad_enabled, False)
    inside = t.op(operator.mul, w, 2)
    t.fn(torch._C._set_grad_enabled, True)
    return inside, t.op(operator.mul, w, 2)


def _autocast(t: Any, x: Any, w: Any) -> Any:
    t.fn(torch.set_autocast_enabled, "cpu", True)
    t.fn(torch.autocast_increment_nesting)
    result = t.fn(F.linear, x, w)
    t.fn(torch.autocast_decrement_nesting)
    t.fn(torch.clear_autocast_cache)
    t.fn(torch.set_autocast_enabled, "cpu", False)
    return result, t.fn(F.linear, x, w)


def flat(value: Any) -> list[Any]:
    """Tensors and constants of a result, in order."""
    if isinstance(value, VariableTracker) and not isinstance(value, TensorVariable):
        if value.is_python_constant():
            return flat(value.as_python_constant())
        return [leaf for item in value.items for leaf in flat(item.realize())]
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


@pytest.mark.parametrize("name", PROGRAMS)
def test_graph_does_as_eager(name: str, tx: Any) -> None:
    program = PROGRAMS[name]
    real, compiled = inputs(), inputs()
    torch.manual_seed(0)
    expected = flat(program(Eager(), *real))
    declared = [tx.input(tensor, letter) for tensor, letter in zip(compiled, "xwiv", strict=True)]
    got = flat(program(Symbolic(tx), *declared))
    predicted = [g.fake if isinstance(g, TensorVariable) else g for g in got]
    tensors = [g for g in got if isinstance(g, TensorVariable)]
    finished = tx.finish(*tensors)
    assert not finished.state_calls
    torch.manual_seed(0)
    if finished.module is None:
        results = [compiled[declared.index(t)] for t in tensors]
    else:
        results = list(finished.module(*[compiled[e.source.key] for e in finished.inputs]))
    _compare(expected, predicted, results)
    for mine, theirs in zip(compiled, real, strict=True):
        torch.testing.assert_close(mine, theirs, equal_nan=True)
    changed = {e.source.key for e in tx.capture.output.mutated_inputs()}
    assert changed >= {k for k, (a, b) in enumerate(zip(real, inputs(), strict=True)) if not torch.equal(a, b)}
    for entry, example in zip(finished.inputs, finished.example_inputs, strict=True):
        fresh = inputs()[entry.source.key]
        assert (example.shape, example.stride(), example.dtype) == (fresh.shape, fresh.stride(), fresh.dtype)
        assert (example.requires_grad, example.is_leaf, example._version) == (fresh.requires_grad, fresh.is_leaf, 0)


def _compare(expected: list[Any], predicted: list[Any], results: list[Any]) -> None:
    assert len(expected) == len(predicted)
    left = iter(results)
    for want, fake in zip(expected, predicted, strict=True):
        if not isinstance(want, torch.Tensor):
            assert want == fake
            assert type(want) is type(fake)
            continue
        result = next(left)
        torch.testing.assert_close(result, want, equal_nan=True)
        for tensor in (fake, result):
            assert tensor.shape == want.shape
            assert tensor.dtype == want.dtype
            assert tensor.stride() == want.stride()
            assert tensor.requires_grad == want.requires_grad
            assert tensor.is_leaf == want.is_leaf
