"""f-strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import graphwright.graph_breaks as gb
from graphwright.symbolic.dispatch import opcode
from graphwright.variables.base import VariableTracker
from graphwright.variables.constant import ConstantVariable

if TYPE_CHECKING:
    from graphwright.bytecode import Instruction
    from graphwright.symbolic.translator import Translator


def convert(tx: Translator, value: VariableTracker, function: Callable[[Any], str] | None) -> VariableTracker:
    """Apply `!s`, `!r` or `!a`."""
    return value if function is None else tx.call(tx.wrap(function), [value]).realize()


def formatted(tx: Translator, value: VariableTracker, spec: VariableTracker | None) -> VariableTracker:
    """`format(value, spec)`; a plain string without a spec is itself."""
    if value.python_type() is str and spec is None:
        return value
    return tx.call(tx.wrap(format), [value] if spec is None else [value, spec])


@opcode("FORMAT_VALUE", until=(3, 13))
def format_value(tx: Translator, inst: Instruction) -> None:
    """Format a value in an f-string; `argval` holds the conversion and whether a format spec is on top.

    Stack: (value, spec? -- text)
    """
    function, has_spec = inst.argval
    spec = tx.pop() if has_spec else None
    tx.push(formatted(tx, convert(tx, tx.pop(), function), spec))


@opcode("CONVERT_VALUE", since=(3, 13))
def convert_value(tx: Translator, inst: Instruction) -> None:
    """Apply a conversion.

    Stack: (value -- text)
    """
    tx.push(convert(tx, tx.pop(), inst.argval))


@opcode("FORMAT_SIMPLE", since=(3, 13))
def format_simple(tx: Translator, inst: Instruction) -> None:
    """Format without a spec.

    Stack: (value -- text)
    """
    tx.push(formatted(tx, tx.pop(), None))


@opcode("FORMAT_WITH_SPEC", since=(3, 13))
def format_with_spec(tx: Translator, inst: Instruction) -> None:
    """Format with a spec.

    Stack: (value, spec -- text)
    """
    spec = tx.pop()
    tx.push(formatted(tx, tx.pop(), spec))


@opcode("BUILD_STRING")
def build_string(tx: Translator, inst: Instruction) -> None:
    """Join the parts of an f-string.

    Stack: (text, ... -- text)
    """
    assert inst.arg is not None
    parts = [part.realize() for part in tx.popn(inst.arg)]
    if not all(part.is_python_constant() for part in parts):
        tx.graph_break(gb.DATA_DEPENDENT_VALUE, "a formatted string with parts that are known only when the graph runs")
    tx.push(ConstantVariable("".join(part.as_python_constant() for part in parts)))
