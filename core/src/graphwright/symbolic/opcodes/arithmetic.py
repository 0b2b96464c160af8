"""Operators, comparisons and subscripts. What they mean for each kind of value is the table of operators' matter."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from graphwright.bytecode.versions import BINARY_OPERATORS, COMPARE_TO_BOOL
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


_ASKS_FOR_TRUTH: Final = frozenset({"POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT"})


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


def _convert_to_bool(tx: Translator, inst: Instruction) -> None:
    """Turn the top into a bool, unless the next instruction asks for its truth anyway.

    Leaving it to the jump keeps a branch on a tensor one break, at the jump. `not not x` compiles to TO_BOOL alone.
    """
    following = tx.ip
    while tx.instructions[following].opname == "NOP":
        following += 1
    if tx.instructions[following].opname not in _ASKS_FOR_TRUTH:
        tx.push(ConstantVariable(tx.branch(tx.pop_raw(), inst)))


@opcode("TO_BOOL", since=(3, 13))
def to_bool(tx: Translator, inst: Instruction) -> None:
    """Turn a value into a bool.

    Stack: (value -- bool)
    """
    _convert_to_bool(tx, inst)


@opcode("COMPARE_OP")
def compare_op(tx: Translator, inst: Instruction) -> None:
    """Compare; from 3.13 on a bit of the argument asks for a bool.

    Stack: (lhs, rhs -- result)
    """
    assert inst.arg is not None
    apply(tx, COMPARISONS[inst.argval], 2)
    if inst.arg & COMPARE_TO_BOOL:
        _convert_to_bool(tx, inst)


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
