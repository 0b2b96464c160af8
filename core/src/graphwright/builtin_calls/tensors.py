"""What operators and builtin functions do with tensors."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.builtin_calls.registry import handles
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.graph_argument import is_graph_argument
from graphwright.variables.sequence import DequeVariable, ListVariable
from graphwright.variables.tensor import TensorVariable
from graphwright.variables.tensor_subclass import SubclassTensorVariable, call_overridden

_INPLACE: dict[Any, Any] = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
    operator.ifloordiv: operator.floordiv,
    operator.imod: operator.mod,
    operator.ipow: operator.pow,
    operator.imatmul: operator.matmul,
    operator.iand: operator.and_,
    operator.ior: operator.or_,
    operator.ixor: operator.xor,
    operator.ilshift: operator.lshift,
    operator.irshift: operator.rshift,
}
"""In-place operators, with what they are when the left side cannot be changed in place."""
_BINARY = frozenset(
    {
        *_INPLACE.values(),
        operator.eq,
        operator.ne,
        operator.lt,
        operator.le,
        operator.gt,
        operator.ge,
        builtins.divmod,
        builtins.pow,
    }
)
_UNARY = frozenset({operator.neg, operator.pos, operator.invert, operator.abs, builtins.abs, builtins.round})
_CONVERSIONS: dict[Any, str] = {
    builtins.int: "__int__",
    builtins.float: "__float__",
    builtins.complex: "__complex__",
    operator.index: "__index__",
}
Operator = Callable[..., Any]


def tensor_operator(tx: Tx, fn: Operator, args: Sequence[VariableTracker]) -> VariableTracker | None:
    """What an operator function gives for arguments among which there is a tensor.

    Returns:
        None where tensors have no say: no tensor among the operands, or one that torch leaves to the other operand.
    """
    values = [a.realize() for a in args]
    if any(isinstance(v, SubclassTensorVariable) for v in values):
        return call_overridden(tx, fn, values, {})
    if not any(isinstance(v, TensorVariable) for v in values):
        return None
    left = values[0]
    if fn in _INPLACE and not isinstance(left, TensorVariable):
        if isinstance(left, (ListVariable, DequeVariable)):
            return None  # a list takes the items of what is added to it
        fn = _INPLACE[fn]
    if fn in _INPLACE or fn in _BINARY:
        return _binary(tx, fn, values)
    if fn in _UNARY:
        return tx.capture.output.call_op(tx, "call_function", fn, values)
    return _special(tx, fn, values)


def _binary(tx: Tx, fn: Operator, values: list[VariableTracker]) -> VariableTracker | None:
    left = values[0]
    if fn is operator.mod and left.is_python_constant() and issubclass(left.python_type(), (str, bytes)):
        tx.graph_break(gb.DATA_DEPENDENT_VALUE, "text of a tensor")
    if not all(is_graph_argument(v) for v in values):
        return None
    return tx.capture.output.call_op(tx, "call_function", fn, values)


def _special(tx: Tx, fn: Operator, values: list[VariableTracker]) -> VariableTracker | None:
    owner = values[0]
    if not isinstance(owner, TensorVariable):
        return None
    if fn in _CONVERSIONS and len(values) == 1:
        return owner.call_method(tx, _CONVERSIONS[fn], [], {})
    if fn is operator.getitem:
        return owner.getitem(tx, values[1])
    if fn is operator.setitem:
        owner.setitem(tx, values[1], values[2])
        return tx.wrap(None)
    if fn is operator.delitem:
        tx.raise_(TypeError, f"'{owner.type_name()}' object doesn't support item deletion")
    if fn is operator.contains:
        return owner.call_method(tx, "__contains__", [values[1]], {})
    return None


def _register(fn: Operator) -> None:
    @handles(fn, first=True)
    def handler(tx: Tx, args: list[VariableTracker], kwargs: Kwargs) -> VariableTracker | None:
        return None if kwargs or not args else tensor_operator(tx, fn, args)


for _fn in (*_CONVERSIONS, *_UNARY - {operator.neg, operator.pos, operator.invert}, builtins.pow, builtins.divmod):
    _register(_fn)
