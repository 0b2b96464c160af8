"""Operators, comparisons and subscripts. What they mean for each kind of value is the table of operators' matter."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from graphwright.bytecode.versions import BINARY_OPERATORS
from graphwright.symbolic.dispatch import opcode
from graphwright.variables.comparison import same_object
from graphwright.variables.constant import ConstantVariable

if TYPE_CHECKING:
    from graphwright.bytecode import Instruction
    from graphwright.symbolic.translator import Translator

OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "&": operator.and_,
    "//": operator.floordiv,
    "<<": operator.lshift,
    "@": operator.matmul,
    "*": operator.mul,
    "%": operator.mod,
    "|": operator.or_,
    "**": operator.pow,
    ">>": operator.rshift,
    "-": operator.sub,
    "/": operator.truediv,
    "^": operator.xor,
    "+=": operator.iadd,
    "&=": operator.iand,
    "//=": operator.ifloordiv,
    "<<=": operator.ilshift,
    "@=": operator.imatmul,
    "*=": operator.imul,
    "%=": operator.imod,
    "|=": operator.ior,
    "**=": operator.ipow,
    ">>=": operator.irshift,
    "-=": operator.isub,
    "/=": operator.itruediv,
    "^=": operator.ixor,
}
"""The function of each symbol of BINARY_OP."""

COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}

UNARY: Final[dict[str, Callable[[Any], Any]]] = {
    "UNARY_NEGATIVE": operator.neg,
    "UNARY_INVERT": operator.invert,
    "UNARY_POSITIVE": operator.pos,
}


def apply(tx: Translator, function: Callable[..., Any], count: int) -> None:
    """Replace the top `count` values by what an operator function gives for them.

    Stack: (arg, ... -- result)
    """
    arguments = [value.realize() for value in tx.popn(count)]
    tx.push(tx.call(tx.wrap(function), arguments))


@opcode("BINARY_OP")
def binary_op(tx: Translator, inst: Instruction) -> None:
    """Apply a binary or in-place operator.

    Stack: (lhs, rhs -- result)
    """
    assert inst.arg is not None
    apply(tx, OPERATORS[BINARY_OPERATORS[inst.arg]], 2)


@opcode("UNARY_NEGATIVE", "UNARY_INVERT")
@opcode("UNARY_POSITIVE", until=(3, 12))
def unary_op(tx: Translator, inst: Instruction) -> None:
    """Apply a unary operator.

    Stack: (value -- result)
    """
    apply(tx, UNARY[inst.opname], 1)


@opcode("UNARY_NOT")
def unary_not(tx: Translator, inst: Instruction) -> None:
    """Negate the truth of a value.

    Stack: (value -- bool)
    """
    tx.push(ConstantVariable(not tx.branch(tx.pop_raw(), inst)))


@opcode("TO_BOOL", since=(3, 13))
def to_bool(tx: Translator, inst: Instruction) -> None:
    """Leave the value: the jump or negation that always follows asks for its truth.

    Stack: (value -- value)
    """


@opcode("COMPARE_OP")
def compare_op(tx: Translator, inst: Instruction) -> None:
    """Compare; the flag of 3.13 that asks for a bool is left to the jump that follows.

    Stack: (lhs, rhs -- result)
    """
    apply(tx, COMPARISONS[inst.argval], 2)


@opcode("IS_OP")
def is_op(tx: Translator, inst: Instruction) -> None:
    """Compare identities; argument 1 is `is not`.

    Stack: (lhs, rhs -- bool)
    """
    rhs, lhs = tx.pop(), tx.pop()
    tx.push(ConstantVariable(same_object(tx, lhs, rhs) is not bool(inst.arg)))


@opcode("CONTAINS_OP")
def contains_op(tx: Translator, inst: Instruction) -> None:
    """Test for membership; argument 1 is `not in`.

    Stack: (item, container -- bool)
    """
    container, item = tx.pop(), tx.pop()
    found = tx.call(tx.wrap(operator.contains), [container, item]).realize()
    tx.push(ConstantVariable(not found.truth(tx)) if inst.arg else found)


@opcode("BINARY_SUBSCR")
def binary_subscr(tx: Translator, inst: Instruction) -> None:
    """Read an item.

    Stack: (container, key -- item)
    """
    apply(tx, operator.getitem, 2)


@opcode("STORE_SUBSCR")
def store_subscr(tx: Translator, inst: Instruction) -> None:
    """Set an item.

    Stack: (value, container, key --)
    """
    value, container, key = tx.popn(3)
    tx.call(tx.wrap(operator.setitem), [container.realize(), key.realize(), value.realize()])


@opcode("DELETE_SUBSCR")
def delete_subscr(tx: Translator, inst: Instruction) -> None:
    """Delete an item.

    Stack: (container, key --)
    """
    container, key = tx.popn(2)
    tx.call(tx.wrap(operator.delitem), [container.realize(), key.realize()])


def _join_slice(tx: Translator) -> None:
    """Replace start and stop on top of the stack by a slice."""
    tx.push(tx.call(tx.wrap(slice), [value.realize() for value in tx.popn(2)]))


@opcode("BINARY_SLICE", since=(3, 12))
def binary_slice(tx: Translator, inst: Instruction) -> None:
    """Read `container[start:stop]`.

    Stack: (container, start, stop -- item)
    """
    _join_slice(tx)
    apply(tx, operator.getitem, 2)


@opcode("STORE_SLICE", since=(3, 12))
def store_slice(tx: Translator, inst: Instruction) -> None:
    """Set `container[start:stop]`.

    Stack: (value, container, start, stop --)
    """
    _join_slice(tx)
    store_subscr(tx, inst)
