"""Functions of torch that need more than a node: tensors made from Python data, sizes, function transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
import torch.func
import torch.utils.checkpoint

import graphwright.graph_breaks as gb
from graphwright.builtin_calls.registry import handles
from graphwright.torch_compat import LEGACY_TENSOR_CLASSES, fold_dtypes, jit_annotate
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.sequence import ListVariable, TupleVariable
from graphwright.variables.symbolic import SymbolicFloatVariable, SymbolicIntVariable
from graphwright.variables.tensor import TensorVariable

VTs = list[VariableTracker]
HIGHER_ORDER = (
    torch.utils.checkpoint.checkpoint_sequential,
    torch.func.linearize,
    torch.func.functionalize,
    torch.while_loop,
    torch.autograd.functional.jacobian,
    torch.autograd.functional.hessian,
    torch.autograd.functional.vjp,
    torch.autograd.functional.jvp,
    torch.autograd.functional.hvp,
    torch.autograd.functional.vhp,
)
"""Functions of functions, for which no graph body is made yet."""
_VARYING = (SymbolicIntVariable, SymbolicFloatVariable)


def _register_higher_order(fn: Any) -> None:
    @handles(fn)
    def refuse(tx: Tx, args: VTs, kwargs: Kwargs) -> NoReturn:
        tx.graph_break(gb.HIGHER_ORDER, f"torch's {fn.__name__}")


for _fn in dict.fromkeys(HIGHER_ORDER):
    _register_higher_order(_fn)


@handles(jit_annotate)
def annotate(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`annotate(type, value)` of TorchScript is the value."""
    return args[1]


@handles(torch.Size)
def size(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`torch.Size(numbers)`."""
    items = [i.realize() for i in args[0].unpack(tx)] if args else []
    for position, item in enumerate(items):
        if not issubclass(item.python_type(), int):
            name = item.type_name()
            tx.raise_(TypeError, f"torch.Size() takes an iterable of 'int' (item {position} is '{name}')")
    return TupleVariable(list(items), cls=torch.Size)


# ---------------------------------------------------------------- tensors from Python data


def _call(tx: Tx, fn: Any, args: Sequence[VariableTracker], kwargs: Kwargs | None = None) -> VariableTracker:
    return tx.capture.output.call_op(tx, "call_function", fn, args, kwargs)


def _register_constructor(fn: Any) -> None:
    @handles(fn)
    def construct(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
        data = args[0] if args else kwargs.get("data")
        leaves = None if data is None else _leaves(data)
        if leaves is None or not any(isinstance(v, (TensorVariable, *_VARYING)) for v in leaves):
            return _call(tx, fn, args, kwargs)
        assert data is not None
        if fn is torch.asarray or len(args) != 1 or isinstance(data, TensorVariable):
            return _call(tx, fn, args, kwargs)
        return _from_scalars(tx, fn, data, leaves, kwargs)


def _leaves(value: VariableTracker) -> list[VariableTracker] | None:
    """The items of nested lists and tuples; None for something that is not made of those."""
    value = value.realize()
    if not isinstance(value, (ListVariable, TupleVariable)):
        return [value]
    found = [_leaves(item) for item in value.items]
    if any(part is None for part in found):
        return None
    return [leaf for part in found for leaf in part or ()]


def _nesting(tx: Tx, value: VariableTracker) -> tuple[int, ...]:
    """The shape of nested sequences of scalars; breaks where they are ragged, for torch's own error."""
    value = value.realize()
    if not isinstance(value, (ListVariable, TupleVariable)):
        return ()
    inner = {_nesting(tx, item) for item in value.items}
    if len(inner) > 1:
        tx.graph_break(gb.TORCH_OP_FAILED, "tensor made of sequences of different lengths")
    return (len(value.items), *(inner.pop() if inner else ()))


def _from_scalars(
    tx: Tx, fn: Any, data: VariableTracker, leaves: list[VariableTracker], kwargs: Kwargs
) -> VariableTracker:
    """`torch.tensor([x, 1.0, n])` for tensors of one element and numbers that vary, which torch's own constructor
    would fix: stacked, in the dtype that torch infers."""
    shape = _nesting(tx, data)
    named = dict(kwargs)
    requires_grad = named.pop("requires_grad", None)
    dtype = named.pop("dtype", None)
    device = named.pop("device", None)
    unknown = [k for k, v in named.items() if v.as_python_constant() is not False]
    if unknown or any(isinstance(v, TensorVariable) and v.fake.numel() != 1 for v in leaves):
        tx.graph_break(gb.DATA_DEPENDENT_VALUE, f"{fn.__name__} of tensors of several elements, or with {unknown}")
    wanted = None if dtype is None else dtype.as_python_constant()
    target = wanted or fold_dtypes([_dtype_of(tx, v) for v in leaves])
    place = torch.device("cpu") if device is None else device.as_python_constant()
    if place is None or torch.get_default_device() != torch.device("cpu"):
        place = place or torch.get_default_device()
    into: Kwargs = {"dtype": tx.wrap(target), "device": tx.wrap(torch.device(place))}
    scalars = [_scalar(tx, leaf, into) for leaf in leaves]
    result = _call(tx, torch.stack, [ListVariable(scalars)]) if shape else scalars[0]
    if len(shape) > 1:  # and no view, as the constructor gives none
        result = result.call_method(tx, "reshape", [TupleVariable([tx.wrap(n) for n in shape])], {})
        result = result.call_method(tx, "clone", [], {})
    if requires_grad is not None and requires_grad.as_python_constant():
        return result.call_method(tx, "requires_grad_", [], {})
    return result


def _scalar(tx: Tx, leaf: VariableTracker, into: Kwargs) -> VariableTracker:
    """A number, or a tensor of one element, as a tensor without dimensions and history."""
    if isinstance(leaf, _VARYING):
        if into["dtype"].as_python_constant().is_floating_point:  # torch.tensor takes ints there by way of doubles
            leaf = tx.call(tx.wrap(float), [leaf])
        return _call(tx, torch.scalar_tensor, [leaf], into)
    if not isinstance(leaf, TensorVariable):
        return _call(tx, torch.tensor, [leaf], into)
    detached = leaf.call_method(tx, "detach", [], {})
    return detached.call_method(tx, "to", [], into).call_method(tx, "reshape", [TupleVariable([])], {})


def _dtype_of(tx: Tx, leaf: VariableTracker) -> torch.dtype:
    if isinstance(leaf, TensorVariable):
        return leaf.fake.dtype
    kind = leaf.python_type()
    if issubclass(kind, bool):
        return torch.bool
    if issubclass(kind, int):
        return torch.int64
    if issubclass(kind, float):
        return torch.get_default_dtype()
    tx.graph_break(gb.UNSUPPORTED_TORCH, f"tensor made of a {kind.__name__} among tensors")


for _fn in (torch.tensor, torch.as_tensor, torch.asarray):
    _register_constructor(_fn)


def _register_legacy(cls: Any) -> None:
    @handles(cls)
    def construct(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
        """`torch.Tensor(2, 3)` and `torch.LongTensor([1, 2])`."""
        if any(isinstance(leaf, TensorVariable) for a in args for leaf in _leaves(a) or ()):
            tx.graph_break(gb.UNSUPPORTED_TORCH, f"{cls.__name__} of tensors")
        return _call(tx, cls, args, kwargs)


for _fn in LEGACY_TENSOR_CLASSES:
    _register_legacy(_fn)
