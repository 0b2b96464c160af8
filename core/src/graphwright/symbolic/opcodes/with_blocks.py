"""Entering and leaving `with` blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphwright.symbolic.dispatch import opcode
from graphwright.symbolic.opcodes.exceptions import traceback_of
from graphwright.variables.object_model import lookup_special

if TYPE_CHECKING:
    from graphwright.bytecode import Instruction
    from graphwright.symbolic.translator import Translator


@opcode("BEFORE_WITH")
def before_with(tx: Translator, inst: Instruction) -> None:
    """Enter a context manager: look up both methods, then call `__enter__`.

    Stack: (manager -- exit method, result of enter)
    """
    manager = tx.pop()
    name = manager.type_name()
    enter = lookup_special(tx, manager, "__enter__")
    if enter is None:
        tx.raise_(TypeError, f"'{name}' object does not support the context manager protocol")
    leave = lookup_special(tx, manager, "__exit__")
    if leave is None:
        message = f"'{name}' object does not support the context manager protocol (missed __exit__ method)"
        tx.raise_(TypeError, message)
    result = tx.call(enter, [])
    tx.push(leave)
    tx.enter_with(manager, leave)
    tx.push(result)


@opcode("WITH_EXCEPT_START")
def with_except_start(tx: Translator, inst: Instruction) -> None:
    """Call the exit method with the exception that leaves the block, and push what it gives.

    Stack: (exit, lasti, previous, exception -- exit, lasti, previous, exception, result)
    """
    exception = tx.peek(1)
    leave = tx.stack[-4]
    arguments = [tx.wrap(exception.python_type()), exception, traceback_of(exception)]
    tx.push(tx.call(leave, arguments))
