"""The operators: binary, in-place, unary, comparison, membership, identity, items."""

from __future__ import annotations

import operator
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.builtin_calls.operator_rules import OPERATOR_RULES, register_operator_rule
from graphwright.builtin_calls.registry import handles
from graphwright.builtin_calls.special_methods import (
    binary_special,
    call_special,
    defines,
    find_special,
    lift,
    rich_compare,
)
from graphwright.builtin_calls.tensors import tensor_operator
from graphwright.variables.base import Kwargs, Tx, VariableTracker, try_next
from graphwright.variables.comparison import equal, same_object
from graphwright.variables.constant import ConstantVariable, constant_call
from graphwright.variables.container import ContainerVariable, try_snapshot
from graphwright.variables.method_table import index_value, run_model
from graphwright.variables.sequence import SliceVariable, as_tuple, slice_value
from graphwright.variables.standin import formattable
from graphwright.variables.symbolic import is_symbolic, symbolic_operator

VTs = list[VariableTracker]
Op = Any

BINARY: dict[Op, tuple[str, str]] = {
    operator.add: ("add", "+"),
    operator.sub: ("sub", "-"),
    operator.mul: ("mul", "*"),
    operator.truediv: ("truediv", "/"),
    operator.floordiv: ("floordiv", "//"),
    operator.mod: ("mod", "%"),
    operator.pow: ("pow", "** or pow()"),
    operator.matmul: ("matmul", "@"),
    operator.lshift: ("lshift", "<<"),
    operator.rshift: ("rshift", ">>"),
    operator.and_: ("and", "&"),
    operator.or_: ("or", "|"),
    operator.xor: ("xor", "^"),
}
"""Binary operators: the stem of their special methods, and how error messages name them."""

INPLACE: dict[Op, tuple[Op, str]] = {
    operator.iadd: (operator.add, "+="),
    operator.isub: (operator.sub, "-="),
    operator.imul: (operator.mul, "*="),
    operator.itruediv: (operator.truediv, "/="),
    operator.ifloordiv: (operator.floordiv, "//="),
    operator.imod: (operator.mod, "%="),
    operator.ipow: (operator.pow, "**="),
    operator.imatmul: (operator.matmul, "@="),
    operator.ilshift: (operator.lshift, "<<="),
    operator.irshift: (operator.rshift, ">>="),
    operator.iand: (operator.and_, "&="),
    operator.ior: (operator.or_, "|="),
    operator.ixor: (operator.xor, "^="),
}
"""In-place operators: the operator they fall back to, and how error messages name them."""

COMPARE: dict[Op, tuple[str, str]] = {
    operator.lt: ("__lt__", "<"),
    operator.le: ("__le__", "<="),
    operator.eq: ("__eq__", "=="),
    operator.ne: ("__ne__", "!="),
    operator.gt: ("__gt__", ">"),
    operator.ge: ("__ge__", ">="),
}
UNARY: dict[Op, tuple[str, str]] = {
    operator.neg: ("__neg__", "unary -"),
    operator.pos: ("__pos__", "unary +"),
    operator.invert: ("__invert__", "unary ~"),
}


# ------------------------------------------------------------------ rules


@register_operator_rule(5)
def _symbolic(tx: Tx, op: Op, operands: VTs) -> VariableTracker | None:
    """Numbers that vary stay numbers that vary, where torch computes them as Python does."""
    if not any(is_symbolic(v) for v in operands):
        return None
    return symbolic_operator(tx, op, operands)


@register_operator_rule(10)
def _constants(tx: Tx, op: Op, operands: VTs) -> VariableTracker | None:
    """Numbers, strings and other immutable values are computed now."""
    if all(isinstance(v, ConstantVariable) or _is_class(v) for v in operands):
        return constant_call(tx, op, [v.as_python_constant() for v in operands])
    return None


def _is_class(vt: VariableTracker) -> bool:
    """Whether a variable is a class with the operators of `type`: `int | None`, `A == B`."""
    return vt.is_python_constant() and issubclass(vt.python_type(), type) and not isinstance(vt, ContainerVariable)


register_operator_rule(20)(tensor_operator)


@register_operator_rule(85)
def _percent_format(tx: Tx, op: Op, operands: VTs) -> VariableTracker | None:
    """`"%s" % value`."""
    template = operands[0]
    if op not in (operator.mod, operator.imod) or not isinstance(template, ConstantVariable):
        return None
    if not isinstance(template.value, str):
        return None
    pair = as_tuple(tx, operands[1])
    if pair is not None:
        values: Any = tuple(formattable(tx, item) for item in pair.items)
    else:
        found = try_snapshot(tx, [operands[1]])
        values = found[0] if found is not None else formattable(tx, operands[1])
        if find_special(tx, operands[1].python_type(), "__getitem__") is None:
            values = (values,)
    return tx.wrap(run_model(tx, operator.mod, template.value, values))


@register_operator_rule(90)
def _data_model(tx: Tx, op: Op, operands: VTs) -> VariableTracker | None:
    if op in INPLACE:
        return _inplace(tx, op, operands[0], operands[1])
    if op in BINARY:
        stem, _ = BINARY[op]
        return binary_special(tx, f"__{stem}__", f"__r{stem}__", operands[0], operands[1])
    if op in COMPARE:
        name, symbol = COMPARE[op]
        return rich_compare(tx, name, symbol, operands[0], operands[1])
    if op in UNARY:
        return call_special(tx, operands[0], UNARY[op][0])
    return None


def _inplace(tx: Tx, op: Op, a: VariableTracker, b: VariableTracker) -> VariableTracker | None:
    plain, _ = INPLACE[op]
    stem = BINARY[plain][0]
    if not isinstance(a, ConstantVariable):
        result = call_special(tx, a, f"__i{stem}__", b)
        if result is not None:
            return result
    return OPERATOR_RULES.apply(tx, plain, [a, b])


# ------------------------------------------------------------------ entry points


def binary_op(tx: Tx, op: Op, a: VariableTracker, b: VariableTracker) -> VariableTracker:
    """`op(a, b)` for a binary or in-place operator of the `operator` module."""
    a, b = a.realize(), b.realize()
    result = OPERATOR_RULES.apply(tx, op, [a, b])
    if result is not None:
        return result.realize()
    symbol = INPLACE[op][1] if op in INPLACE else BINARY[op][1]
    tx.raise_(TypeError, f"unsupported operand type(s) for {symbol}: '{a.type_name()}' and '{b.type_name()}'")


def compare_op(tx: Tx, op: Op, a: VariableTracker, b: VariableTracker) -> VariableTracker:
    """`op(a, b)` for one of the six comparisons."""
    result = OPERATOR_RULES.apply(tx, op, [a.realize(), b.realize()])
    if result is None:
        tx.graph_break(gb.UNKNOWN_COMPARISON, f"comparing a {a.type_name()} with a {b.type_name()}")
    return result.realize()


def unary_op(tx: Tx, op: Op, a: VariableTracker) -> VariableTracker:
    """`-a`, `+a`, `~a`."""
    a = a.realize()
    result = OPERATOR_RULES.apply(tx, op, [a])
    if result is not None:
        return result.realize()
    tx.raise_(TypeError, f"bad operand type for {UNARY[op][1]}: '{a.type_name()}'")


def is_same(tx: Tx, a: VariableTracker, b: VariableTracker) -> bool:
    """`a is b`."""
    return same_object(tx, a, b)


def contains(tx: Tx, container: VariableTracker, item: VariableTracker) -> VariableTracker:
    """`item in container`."""
    container, item = lift(tx, container), item.realize()
    found = OPERATOR_RULES.apply(tx, operator.contains, [container, item])
    if found is not None:
        return found.realize()
    cls = container.python_type()
    method = find_special(tx, cls, "__contains__")
    if method is not None and method[0] is None:
        tx.raise_(TypeError, f"'{container.type_name()}' object is not a container")
    if method is not None:
        return _call_contains(tx, container, item)
    if not defines(tx, cls, "__iter__") and not defines(tx, cls, "__getitem__"):
        tx.raise_(TypeError, f"argument of type '{container.type_name()}' is not iterable")
    iterator = container.iterate(tx).realize()
    while (candidate := try_next(tx, iterator)) is not None:
        if equal(tx, candidate, item):
            return tx.wrap(True)
    return tx.wrap(False)


def _call_contains(tx: Tx, container: VariableTracker, item: VariableTracker) -> VariableTracker:
    if isinstance(container, ConstantVariable) and not item.is_python_constant():
        if isinstance(container.value, str) and not issubclass(item.python_type(), str):
            tx.raise_(TypeError, f"'in <string>' requires string as left operand, not {item.type_name()}")
        tx.graph_break(gb.UNKNOWN_COMPARISON, f"a {item.type_name()} in a constant {container.type_name()}")
    result = container.call_method(tx, "__contains__", [item], {}).realize()
    if result.is_python_constant() and issubclass(result.python_type(), bool):
        return result
    return tx.wrap(result.truth(tx))


# ------------------------------------------------------------------ items


def getitem(tx: Tx, container: VariableTracker, key: VariableTracker) -> VariableTracker:
    """`container[key]`."""
    container, key = container.realize(), key.realize()
    found = OPERATOR_RULES.apply(tx, operator.getitem, [container, key])
    if found is not None:
        return found
    cls = container.python_type()
    if find_special(tx, cls, "__getitem__") is None and not issubclass(cls, type):
        tx.raise_(TypeError, f"'{container.type_name()}' object is not subscriptable")
    if isinstance(container, ConstantVariable) and not isinstance(key, ConstantVariable):
        position = slice_value(tx, key) if isinstance(key, SliceVariable) else index_value(tx, key)
        return constant_call(tx, operator.getitem, [container.value, position])
    return container.call_method(tx, "__getitem__", [key], {})


def setitem(tx: Tx, container: VariableTracker, key: VariableTracker, value: VariableTracker) -> None:
    """`container[key] = value`."""
    container = container.realize()
    if OPERATOR_RULES.apply(tx, operator.setitem, [container, key.realize(), value]) is not None:
        return
    if find_special(tx, container.python_type(), "__setitem__") is None:
        tx.raise_(TypeError, f"'{container.type_name()}' object does not support item assignment")
    container.call_method(tx, "__setitem__", [key.realize(), value], {})


def delitem(tx: Tx, container: VariableTracker, key: VariableTracker) -> None:
    """`del container[key]`."""
    container = container.realize()
    if OPERATOR_RULES.apply(tx, operator.delitem, [container, key.realize()]) is not None:
        return
    method = find_special(tx, container.python_type(), "__delitem__")
    if method is None:
        verb = "doesn't" if find_special(tx, container.python_type(), "__setitem__") is None else "does not"
        tx.raise_(TypeError, f"'{container.type_name()}' object {verb} support item deletion")
    container.call_method(tx, "__delitem__", [key.realize()], {})


# ------------------------------------------------------------------ handlers


def _register(ops: Any, arity: int, call: Any) -> None:
    for op in ops:

        @handles(op)
        def handler(tx: Tx, args: VTs, kwargs: Kwargs, op: Op = op) -> VariableTracker:
            if len(args) != arity or kwargs:
                run_model(tx, op, *[None] * len(args), **dict.fromkeys(kwargs))
            result: VariableTracker = call(tx, op, *args)
            return result


def _contains_handler(tx: Tx, op: Op, container: VariableTracker, item: VariableTracker) -> VariableTracker:
    return contains(tx, container, item)


def _is_handler(tx: Tx, op: Op, a: VariableTracker, b: VariableTracker) -> VariableTracker:
    return tx.wrap(is_same(tx, a, b) is (op is operator.is_))


def _truth_handler(tx: Tx, op: Op, a: VariableTracker) -> VariableTracker:
    return tx.wrap(a.truth(tx) is (op is operator.truth))


def _getitem_handler(tx: Tx, op: Op, a: VariableTracker, key: VariableTracker) -> VariableTracker:
    return getitem(tx, a, key)


def _setitem_handler(
    tx: Tx, op: Op, a: VariableTracker, key: VariableTracker, value: VariableTracker
) -> VariableTracker:
    setitem(tx, a, key, value)
    return tx.wrap(None)


def _delitem_handler(tx: Tx, op: Op, a: VariableTracker, key: VariableTracker) -> VariableTracker:
    delitem(tx, a, key)
    return tx.wrap(None)


_register(BINARY, 2, binary_op)
_register(INPLACE, 2, binary_op)
_register(COMPARE, 2, compare_op)
_register(UNARY, 1, unary_op)
_register([operator.contains], 2, _contains_handler)
_register([operator.is_, operator.is_not], 2, _is_handler)
_register([operator.truth, operator.not_], 1, _truth_handler)
_register([operator.getitem], 2, _getitem_handler)
_register([operator.setitem], 3, _setitem_handler)
_register([operator.delitem], 2, _delitem_handler)


@handles(operator.concat)
def _concat(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    if len(args) != 2 or kwargs:
        run_model(tx, operator.concat, *[None] * len(args), **dict.fromkeys(kwargs))
    if find_special(tx, args[0].python_type(), "__getitem__") is None:
        tx.raise_(TypeError, f"'{args[0].type_name()}' object can't be concatenated")
    return binary_op(tx, operator.add, args[0], args[1])
