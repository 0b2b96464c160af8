"""Arguments and positions of instructions, in the form the `bytecode` library takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bytecode.instr import BinaryOp, CellVar, Compare, FormatValue, FreeVar, InstrLocation, Intrinsic1Op, Intrinsic2Op

from graphwright.bytecode.errors import AssemblyError
from graphwright.bytecode.instruction import Instruction
from graphwright.bytecode.stack import Label
from graphwright.bytecode.versions import (
    ARG_KINDS,
    COMPARE_TO_BOOL,
    COMPARISONS,
    LOCAL_OPCODES_REACH_CELLS,
    OPMAP,
    ArgKind,
)

Variable = str | CellVar | FreeVar


_NAMED_NUMBERS: Final[dict[str, Callable[[int], int]]] = {
    "CALL_INTRINSIC_1": Intrinsic1Op,
    "CALL_INTRINSIC_2": Intrinsic2Op,
    "BINARY_OP": BinaryOp,
    "CONVERT_VALUE": FormatValue,
}


class Constant:
    """Holds a constant, so that the library can't merge it with an equal one."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"constant of type {type(self.value).__name__}"


@dataclass(slots=True, frozen=True)
class Operand:
    """An argument in both forms that assembling needs."""

    argument: object
    """What the library takes."""
    effect: int = 0
    """The raw integer as far as the stack effect depends on it."""


@dataclass(slots=True, frozen=True)
class VariableSlots:
    """Tells which names are cells and free variables; any other name is a local."""

    cellvars: tuple[str, ...]
    freevars: tuple[str, ...]

    def is_cell(self, name: str) -> bool:
        """Whether a name is a cell or free variable."""
        return name in self.freevars or name in self.cellvars

    def local(self, opname: str, name: str) -> Variable:
        """Return the slot for an instruction that acts on the slot itself, not on the content of its cell."""
        if LOCAL_OPCODES_REACH_CELLS and self.is_cell(name):
            return self.cell(opname, name)
        if name in self.freevars:
            raise AssemblyError(f"{opname} {name}: {name!r} is a free variable, out of reach of {opname}")
        return name

    def cell(self, opname: str, name: str) -> Variable:
        """Return the slot for an instruction that acts on a cell."""
        if name in self.freevars:
            if opname == "MAKE_CELL":
                raise AssemblyError(f"MAKE_CELL {name}: {name!r} is a free variable here; pass it as a cell argument")
            return FreeVar(name)
        if name in self.cellvars:
            return CellVar(name)
        raise AssemblyError(
            f"{opname} {name}: {name!r} is no cell or free variable; "
            f"cells: {list(self.cellvars)}, free variables: {list(self.freevars)}"
        )


def opcode_of(opname: str) -> int:
    """Return the number of an instruction.

    Raises:
        AssemblyError: This Python has no such instruction.
    """
    try:
        return OPMAP[opname]
    except KeyError:
        raise AssemblyError(f"this Python has no instruction {opname!r}") from None


def written_operand(opname: str, value: object, slots: VariableSlots) -> Operand:
    """Convert an argument given by a caller: a name, constant, label, operator symbol or integer."""
    kind = ARG_KINDS[opcode_of(opname)]
    if kind is ArgKind.NONE:
        if value is not None:
            raise AssemblyError(f"{opname} takes no argument, found {value!r}")
        return Operand(None)
    if kind is ArgKind.CONST:
        return Operand(Constant(value))
    if kind is ArgKind.GLOBAL or kind is ArgKind.ATTRIBUTE:
        flag, name = value if isinstance(value, tuple) else (False, value)
        return Operand((bool(flag), _name(opname, name)), int(flag))
    if kind is ArgKind.SUPER_ATTRIBUTE and isinstance(value, tuple):
        method, two_arguments, name = value
        return Operand((bool(method), bool(two_arguments), _name(opname, name)), int(method) | int(two_arguments) << 1)
    if kind is ArgKind.NAME:
        return Operand(_name(opname, value))
    if kind is ArgKind.LOCAL:
        return Operand(slots.local(opname, _name(opname, value)))
    if kind is ArgKind.FREE:
        return Operand(slots.cell(opname, _name(opname, value)))
    if kind is ArgKind.COMPARE and isinstance(value, str):
        return Operand(_comparison(value, to_bool=False))
    if kind is ArgKind.JUMP_FORWARD or kind is ArgKind.JUMP_BACKWARD:
        if not isinstance(value, Label):
            raise AssemblyError(f"{opname} jumps to a Label, found {value!r}")
        return Operand(value)
    if not isinstance(value, int):
        raise AssemblyError(f"{opname} takes an integer here, found {value!r}")
    return _number_operand(opname, value)


def decoded_operand(instruction: Instruction, slots: VariableSlots) -> Operand:
    """Convert the argument of a decoded instruction that is neither a jump nor acts on two locals."""
    kind = ARG_KINDS[instruction.opcode]
    arg = instruction.arg
    if arg is None:
        return Operand(None)
    if kind is ArgKind.CONST:
        return Operand(Constant(instruction.argval))
    if kind is ArgKind.GLOBAL or kind is ArgKind.ATTRIBUTE:
        return Operand((bool(arg & 1), instruction.argval), arg & 1)
    if kind is ArgKind.SUPER_ATTRIBUTE:
        return Operand((bool(arg & 1), bool(arg & 2), instruction.argval), arg & 3)
    if kind is ArgKind.NAME:
        return Operand(instruction.argval)
    if kind is ArgKind.LOCAL:
        return Operand(slots.local(instruction.opname, instruction.argval))
    if kind is ArgKind.FREE:
        return Operand(slots.cell(instruction.opname, instruction.argval))
    if kind is ArgKind.COMPARE:
        return Operand(_comparison(instruction.argval, to_bool=bool(arg & COMPARE_TO_BOOL)))
    return _number_operand(instruction.opname, arg)


def _number_operand(opname: str, number: int) -> Operand:
    """Return the operand of an instruction whose argument is a plain number; the library names some of them."""
    named = _NAMED_NUMBERS.get(opname)
    return Operand(number if named is None else named(number), number)


def _name(opname: str, value: object) -> str:
    if not isinstance(value, str):
        raise AssemblyError(f"{opname} takes a name, found {value!r}")
    return value


def _comparison(symbol: str, *, to_bool: bool) -> Compare:
    try:
        return Compare(COMPARISONS.index(symbol) | (COMPARE_TO_BOOL if to_bool else 0))
    except ValueError:
        raise AssemblyError(f"no comparison {symbol!r}; expected one of {', '.join(COMPARISONS)}") from None


@lru_cache(maxsize=1024)
def _location(line: int | None, end_line: int | None, col: int | None, end_col: int | None) -> InstrLocation:
    if line is None or not end_line or col is None or end_col is None:
        return InstrLocation(line, None, None, None)
    return InstrLocation(line, end_line, col, end_col)


def instruction_location(instruction: Instruction) -> InstrLocation:
    """Return the position of a decoded instruction in the user's source."""
    return _location(instruction.line, instruction.end_line, instruction.col, instruction.end_col)


def line_location(line: int) -> InstrLocation:
    """Return the position of a whole line."""
    return _location(line, None, None, None)
