"""Symbolic expressions as postfix programs, which each reader carries out in its own way.

A program is a list of steps `(operation, operand)`: ``const`` and ``leaf`` push a number or a symbol; the others take
one or two values and push one. Guards run such programs in C, graphs hold them as nodes, replacement code as calls.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from graphwright.torch_compat import sympy, sympy_functions

Expr = Any
"""A sympy expression, or a Python number."""


class Step(NamedTuple):
    """One step: `operand` is the number of a ``const``, the symbol of a ``leaf``, else None."""

    operation: str
    operand: Any = None


class NotExpressible(Exception):
    """An expression holds something that has no operation here."""


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "min": torch.sym_min,
    "max": torch.sym_max,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "and": operator.and_,
    "or": operator.or_,
    "not": torch.sym_not,
    "truediv": operator.truediv,
    "to_float": torch.sym_float,
    "floor": math.floor,
    "ceil": math.ceil,
    "truncate": torch.sym_int,
    "sqrt": torch.sym_sqrt,
}
"""What each operation is in Python; they take symbolic numbers as well as plain ones."""
UNARY = frozenset({"not", "to_float", "floor", "ceil", "truncate", "sqrt"})
"""Operations on one value."""
NATIVE = frozenset({"const", "leaf", "add", "mul", "floordiv", "mod", "pow", "min", "max", "eq", "ne", "lt", "le",
                    "and", "or", "not"})  # fmt: skip
"""Operations that guards carry out, on integers of 64 bits."""

_FOLDED: dict[type, str] = {
    sympy.Add: "add",
    sympy.Mul: "mul",
    sympy_functions.Max: "max",
    sympy_functions.Min: "min",
    sympy.Max: "max",
    sympy.Min: "min",
    sympy.And: "and",
    sympy.Or: "or",
}
"""Operations on any number of values."""
_DIRECT: dict[type, str] = {
    sympy_functions.FloorDiv: "floordiv",
    sympy_functions.CleanDiv: "floordiv",
    sympy_functions.Mod: "mod",
    sympy_functions.PythonMod: "mod",
    sympy_functions.PowByNatural: "pow",
    sympy_functions.IntTrueDiv: "truediv",
    sympy_functions.FloatTrueDiv: "truediv",
    sympy_functions.ToFloat: "to_float",
    sympy_functions.FloorToInt: "floor",
    sympy_functions.CeilToInt: "ceil",
    sympy_functions.TruncToInt: "truncate",
    sympy.Eq: "eq",
    sympy.Ne: "ne",
    sympy.StrictLessThan: "lt",
    sympy.LessThan: "le",
    sympy.Not: "not",
}
_SWAPPED: dict[type, str] = {sympy.StrictGreaterThan: "lt", sympy.GreaterThan: "le"}


def postfix(expr: Expr) -> list[Step]:
    """The program of an expression.

    Raises:
        NotExpressible: it holds something that has no operation here.
    """
    return list(_steps(expr))


def _steps(expr: Expr) -> Iterator[Step]:
    if isinstance(expr, (bool, int)):
        yield Step("const", int(expr))
    elif isinstance(expr, float):
        yield Step("const", expr)
    elif expr.is_Symbol:
        yield Step("leaf", expr)
    elif expr in (sympy.true, sympy.false):
        yield Step("const", int(bool(expr)))
    elif expr.is_Integer:
        yield Step("const", int(expr))
    elif isinstance(expr, sympy.Float):
        yield Step("const", float(expr))
    else:
        yield from _compound(expr)


def _compound(expr: Expr) -> Iterator[Step]:
    kind = expr.func
    if kind in _FOLDED:
        first, *rest = expr.args
        yield from _steps(first)
        for argument in rest:
            yield from _steps(argument)
            yield Step(_FOLDED[kind])
    elif kind in _DIRECT or kind in _SWAPPED:
        for argument in expr.args if kind in _DIRECT else reversed(expr.args):
            yield from _steps(argument)
        yield Step(_DIRECT.get(kind) or _SWAPPED[kind])
    elif kind is sympy.Pow and expr.args[1].is_Integer and expr.args[1] >= 0:
        yield from _steps(expr.args[0])
        yield from _steps(expr.args[1])
        yield Step("pow")
    elif kind is sympy_functions.Identity:
        yield from _steps(expr.args[0])
    elif kind.__name__ == "OpaqueUnaryFn_sqrt":
        yield from _steps(expr.args[0])
        yield Step("sqrt")
    else:
        raise NotExpressible(f"{kind.__name__} in {expr}")


def carry_out(
    program: list[Step], constant: Callable[[Any], Any], leaf: Callable[[Any], Any], apply: Callable[..., Any]
) -> Any:
    """Run a program on values of the caller's kind.

    Args:
        constant: the value of a number.
        leaf: the value of a symbol.
        apply: the value of a function of `FUNCTIONS` on values.
    """
    stack: list[Any] = []
    for operation, operand in program:
        if operation == "const":
            stack.append(constant(operand))
        elif operation == "leaf":
            stack.append(leaf(operand))
        else:
            count = 1 if operation in UNARY else 2
            arguments = stack[len(stack) - count :]
            del stack[len(stack) - count :]
            stack.append(apply(FUNCTIONS[operation], *arguments))
    [result] = stack
    return result


def in_words(program: list[Step], leaf: Callable[[Any], str]) -> str:
    """A program as the text of a Python expression."""
    return str(carry_out(program, str, leaf, _apply_in_words))


_SIGNS: dict[Any, str] = {
    operator.add: "+", operator.mul: "*", operator.floordiv: "//", operator.mod: "%", operator.pow: "**",
    operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.and_: "and",
    operator.or_: "or", operator.truediv: "/",
}  # fmt: skip


def _apply_in_words(function: Any, *arguments: str) -> str:
    sign = _SIGNS.get(function)
    if sign is not None:
        left, right = arguments
        return f"({left} {sign} {right})"
    return f"{function.__name__.removeprefix('sym_')}({', '.join(arguments)})"
