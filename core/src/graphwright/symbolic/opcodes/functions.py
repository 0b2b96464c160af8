"""Making functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphwright.symbolic.dispatch import opcode
from graphwright.variables.base import VariableTracker
from graphwright.variables.cell import CellVariable
from graphwright.variables.function import NestedFunctionVariable

if TYPE_CHECKING:
    from graphwright.bytecode import Instruction
    from graphwright.symbolic.translator import Translator

DEFAULTS: Final = 0x01
KEYWORD_DEFAULTS: Final = 0x02
ANNOTATIONS: Final = 0x04
CLOSURE: Final = 0x08


def _cells(tx: Translator, closure: VariableTracker) -> list[CellVariable]:
    cells = []
    for item in closure.realize().unpack(tx):
        cell = item.realize()
        assert isinstance(cell, CellVariable)
        cells.append(cell)
    return cells


@opcode("MAKE_FUNCTION", until=(3, 13))
def make_function(tx: Translator, inst: Instruction) -> None:
    """Make a function; the argument's bits say what else is on the stack.

    Stack: (defaults?, keyword defaults?, annotations?, closure?, code -- function)
    """
    flags = inst.arg or 0
    code = tx.pop().as_python_constant()
    closure = _cells(tx, tx.pop()) if flags & CLOSURE else []
    annotations = tx.pop() if flags & ANNOTATIONS else None
    keyword_defaults = tx.pop() if flags & KEYWORD_DEFAULTS else None
    defaults = tx.pop() if flags & DEFAULTS else None
    tx.push(NestedFunctionVariable(code, tx.globals, defaults, keyword_defaults, closure, annotations))


@opcode("MAKE_FUNCTION", since=(3, 13))
def make_bare_function(tx: Translator, inst: Instruction) -> None:
    """Make a function of code alone.

    Stack: (code -- function)
    """
    tx.push(NestedFunctionVariable(tx.pop().as_python_constant(), tx.globals))


@opcode("SET_FUNCTION_ATTRIBUTE", since=(3, 13))
def set_function_attribute(tx: Translator, inst: Instruction) -> None:
    """Give a function just made its closure, annotations or defaults.

    Stack: (value, function -- function)
    """
    function, value = tx.pop(), tx.pop()
    assert isinstance(function, NestedFunctionVariable)
    if inst.arg == CLOSURE:
        # The compiler sets the closure first, so nothing is lost by making the function again.
        function = NestedFunctionVariable(function.code, tx.globals, closure=_cells(tx, value))
    elif inst.arg == ANNOTATIONS:
        function = NestedFunctionVariable(function.code, tx.globals, closure=function.free_cells(tx), annotations=value)
    else:
        function.setattr(tx, "__defaults__" if inst.arg == DEFAULTS else "__kwdefaults__", value)
    tx.push(function)
