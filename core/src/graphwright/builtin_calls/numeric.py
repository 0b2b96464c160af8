"""Numbers: conversions, rounding, `math`, and other pure functions that are called now where all is known."""

from __future__ import annotations

import builtins
import cmath
import math
import operator
import sys
import types
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.builtin_calls.arithmetic import binary_op
from graphwright.builtin_calls.containers import check, refuse
from graphwright.builtin_calls.operator_rules import OPERATOR_RULES
from graphwright.builtin_calls.registry import handles
from graphwright.builtin_calls.special_methods import binary_special, call_special, find_special
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.constant import constant_call
from graphwright.variables.container import try_snapshot
from graphwright.variables.method_table import index_value

VTs = list[VariableTracker]


def _by_rule(tx: Tx, fn: Any, args: VTs, kwargs: Kwargs) -> VariableTracker | None:
    """What tensors, symbolic numbers or constants say."""
    found = OPERATOR_RULES.apply(tx, fn, args) if args and not kwargs else None
    return found if found is not None else fold(tx, fn, args, kwargs)


def fold(tx: Tx, fn: Any, args: VTs, kwargs: Kwargs) -> VariableTracker | None:
    """The result of a pure function on values that are known now, containers of constants included; else None."""
    values = try_snapshot(tx, [*args, *kwargs.values()])
    if values is None:
        return None
    return constant_call(tx, fn, values[: len(args)], dict(zip(kwargs, values[len(args) :], strict=True)))


@handles(bool)
def make_bool(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`bool(value)`."""
    check(tx, bool, args, kwargs, 0, 1)
    return tx.wrap(bool(args) and args[0].truth(tx))


def _register_conversion(fn: Any, *methods: str) -> None:
    @handles(fn)
    def convert(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
        found = _by_rule(tx, fn, args, kwargs)
        if found is not None:
            return found
        if len(args) == 1 and not kwargs:
            for name in methods:
                if find_special(tx, args[0].python_type(), name) is not None:
                    return _converted(tx, fn, args[0], name)
        refuse(tx, fn, args, kwargs)
        tx.graph_break(gb.UNKNOWN_CALL, f"{fn.__name__}() of a {args[0].type_name()}")


class _Returns:
    """Has a conversion method that gives what another gave, for the conversion to accept or refuse."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __int__(self) -> Any:
        return self.value

    __float__ = __complex__ = __index__ = __trunc__ = __int__


def _converted(tx: Tx, fn: Any, value: VariableTracker, name: str) -> VariableTracker:
    result = value.call_method(tx, name, [], {}).realize()
    if not result.is_python_constant():
        return result
    if name in ("__index__", "__trunc__"):
        return constant_call(tx, fn, [result.as_python_constant()])
    return constant_call(tx, fn, [_Returns(result.as_python_constant())])


_register_conversion(int, "__int__", "__index__", "__trunc__")
_register_conversion(float, "__float__", "__index__")
_register_conversion(complex, "__complex__", "__float__", "__index__")


@handles(operator.index)
def make_index(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`operator.index(value)`."""
    check(tx, operator.index, args, kwargs, 1, 1)
    found = _by_rule(tx, operator.index, args, kwargs)
    return found if found is not None else constant_call(tx, operator.index, [index_value(tx, args[0])])


def _register_unary(fn: Any, name: str, text: str) -> None:
    @handles(fn)
    def apply(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
        check(tx, fn, args, kwargs, 1, 1)
        found = _by_rule(tx, fn, args, kwargs)
        if found is None:
            found = call_special(tx, args[0], name)
        if found is None:
            tx.raise_(TypeError, f"bad operand type for {text}: '{args[0].type_name()}'")
        return found


_register_unary(builtins.abs, "__abs__", "abs()")
if operator.abs is not builtins.abs:
    _register_unary(operator.abs, "__abs__", "abs()")


@handles(round)
def make_round(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`round(number, ndigits)`."""
    check(tx, round, args, kwargs, 0, 2, ("number", "ndigits"))
    args = [*args, *(kwargs[n] for n in ("number", "ndigits") if n in kwargs)]
    found = _by_rule(tx, round, args, {})
    if found is None:
        found = call_special(tx, args[0], "__round__", *args[1:])
    if found is None:
        tx.raise_(TypeError, f"type {args[0].type_name()} doesn't define __round__ method")
    return found


@handles(divmod)
def make_divmod(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`divmod(a, b)`."""
    check(tx, divmod, args, kwargs, 2, 2)
    found = _by_rule(tx, divmod, args, kwargs)
    if found is None:
        found = binary_special(tx, "__divmod__", "__rdivmod__", args[0], args[1])
    if found is None:
        names = " and ".join(f"'{a.type_name()}'" for a in args)
        tx.raise_(TypeError, f"unsupported operand type(s) for divmod(): {names}")
    return found


@handles(pow)
def make_pow(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`pow(base, exp, mod)`."""
    check(tx, pow, args, kwargs, 0, 3, ("base", "exp", "mod"))
    args = [*args, *(kwargs[n] for n in ("base", "exp", "mod") if n in kwargs)]
    if len(args) == 2:
        return binary_op(tx, operator.pow, args[0], args[1])
    found = _by_rule(tx, pow, args, {})
    if found is None:
        found = call_special(tx, args[0], "__pow__", *args[1:])
    if found is None:
        tx.graph_break(gb.UNKNOWN_CALL, "pow() with three arguments that are not numbers")
    return found


# ------------------------------------------------------------------ pure functions

_ROUNDING = {math.ceil: "__ceil__", math.floor: "__floor__", math.trunc: "__trunc__"}


def _register_pure(fn: Any) -> None:
    @handles(fn)
    def call(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker | None:
        found = _by_rule(tx, fn, args, kwargs)
        if found is not None or len(args) != 1:
            return found
        name = _ROUNDING.get(fn)
        if name is not None and find_special(tx, args[0].python_type(), name) is not None:
            return call_special(tx, args[0], name)
        if isinstance(getattr(fn, "__self__", None), types.ModuleType) and fn.__module__ in ("math", "cmath"):
            return _as_float(tx, fn, args[0])
        return None


def _as_float(tx: Tx, fn: Any, value: VariableTracker) -> VariableTracker | None:
    """A function of `math` on an object that converts itself to a float."""
    if find_special(tx, value.python_type(), "__float__") is None:
        return None
    number = tx.call(tx.wrap(float), [value]).realize()
    return constant_call(tx, fn, [number.as_python_constant()]) if number.is_python_constant() else None


def pure_functions() -> list[Any]:
    """Functions whose result depends on their arguments alone and that change nothing."""
    of_modules = [
        v for module in (math, cmath) for v in vars(module).values() if isinstance(v, types.BuiltinFunctionType)
    ]
    single = [bin, hex, oct, chr, ord, bytes, sys.intern, str.maketrans, bytes.maketrans, bytes.fromhex]
    single += [int.from_bytes, float.fromhex]
    return [*of_modules, *single]


for _fn in pure_functions():
    _register_pure(_fn)
