"""Jumps, loops and the return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphwright.bytecode.versions import END_OF_LOOP
from graphwright.symbolic.dispatch import opcode
from graphwright.symbolic.frame_state import Returned
from graphwright.variables.base import VariableTracker, is_the, try_next

if TYPE_CHECKING:
    from graphwright.bytecode import Instruction
    from graphwright.symbolic.translator import Translator


@opcode("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def jump(tx: Translator, inst: Instruction) -> None:
    """Continue elsewhere.

    Stack: (--)
    """
    tx.jump(inst)


@opcode("POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE", until=(3, 12))
@opcode("POP_JUMP_IF_TRUE", since=(3, 12))
def pop_jump_if_true(tx: Translator, inst: Instruction) -> None:
    """Jump if a value is true.

    Stack: (condition --)
    """
    if tx.branch(tx.pop_raw(), inst):
        tx.jump(inst)


@opcode("POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE", until=(3, 12))
@opcode("POP_JUMP_IF_FALSE", since=(3, 12))
def pop_jump_if_false(tx: Translator, inst: Instruction) -> None:
    """Jump if a value is false.

    Stack: (condition --)
    """
    if not tx.branch(tx.pop_raw(), inst):
        tx.jump(inst)


def _is_none(value: VariableTracker) -> bool:
    return is_the(value, None)


@opcode("POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE", until=(3, 12))
@opcode("POP_JUMP_IF_NONE", since=(3, 12))
def pop_jump_if_none(tx: Translator, inst: Instruction) -> None:
    """Jump if a value is None.

    Stack: (value --)
    """
    if _is_none(tx.pop()):
        tx.jump(inst)


@opcode("POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE", until=(3, 12))
@opcode("POP_JUMP_IF_NOT_NONE", since=(3, 12))
def pop_jump_if_not_none(tx: Translator, inst: Instruction) -> None:
    """Jump if a value is not None.

    Stack: (value --)
    """
    if not _is_none(tx.pop()):
        tx.jump(inst)


@opcode("JUMP_IF_TRUE_OR_POP", until=(3, 12))
def jump_if_true_or_pop(tx: Translator, inst: Instruction) -> None:
    """`or`: keep a true value and jump, or drop it.

    Stack: (value -- value?)
    """
    if tx.branch(tx.stack[-1], inst):
        tx.jump(inst)
    else:
        tx.pop_raw()


@opcode("JUMP_IF_FALSE_OR_POP", until=(3, 12))
def jump_if_false_or_pop(tx: Translator, inst: Instruction) -> None:
    """`and`: keep a false value and jump, or drop it.

    Stack: (value -- value?)
    """
    if tx.branch(tx.stack[-1], inst):
        tx.pop_raw()
    else:
        tx.jump(inst)


@opcode("GET_ITER")
def get_iter(tx: Translator, inst: Instruction) -> None:
    """Get an iterator.

    Stack: (iterable -- iterator)
    """
    tx.push(tx.pop().iterate(tx))


@opcode("FOR_ITER")
def for_iter(tx: Translator, inst: Instruction) -> None:
    """Push the next item, or drop the iterator and leave the loop.

    Stack: (iterator -- iterator, item) or (iterator --)
    Source: the end skips what CPython puts at the target to clean up (END_FOR from 3.12 on).
    """
    item = try_next(tx, tx.peek(1))
    if item is not None:
        tx.push(item)
        return
    tx.pop_raw()
    assert inst.target is not None
    tx.ip = inst.target + len(END_OF_LOOP)


@opcode("END_FOR", since=(3, 12))
def end_for(tx: Translator, inst: Instruction) -> None:
    """Drop what a finished loop left; FOR_ITER skips it, so only jumps made by hand come here.

    Stack: (iterator, item --) on 3.12, (item --) from 3.13 on
    """
    tx.popn(2 if len(END_OF_LOOP) == 1 else 1)


@opcode("RETURN_VALUE")
def return_value(tx: Translator, inst: Instruction) -> None:
    """Leave the frame with a value.

    Stack: (value --)
    """
    tx.finish(Returned(tx.pop_raw()))


@opcode("RETURN_CONST", since=(3, 12))
def return_const(tx: Translator, inst: Instruction) -> None:
    """Leave the frame with a constant.

    Stack: (--)
    """
    tx.finish(Returned(tx.constant(inst)))
