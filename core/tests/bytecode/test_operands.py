"""Arguments of instructions in the form the `bytecode` library takes."""

from __future__ import annotations

import pytest
from bytecode.instr import CellVar, FreeVar

from graphwright.bytecode import AssemblyError, Label, decode
from graphwright.bytecode.operands import (
    Constant,
    VariableSlots,
    decoded_operand,
    instruction_location,
    line_location,
    opcode_of,
    written_operand,
)

slots = VariableSlots(cellvars=("c",), freevars=("f",))


def test_unknown_instruction_is_refused() -> None:
    with pytest.raises(AssemblyError, match="this Python has no instruction 'ROT_TWO'"):
        opcode_of("ROT_TWO")


def test_cells_and_free_variables_are_told_apart() -> None:
    assert slots.cell("LOAD_DEREF", "c") == CellVar("c")
    assert slots.cell("LOAD_DEREF", "f") == FreeVar("f")
    assert slots.local("LOAD_FAST", "x") == "x"
    assert slots.is_cell("c")
    assert not slots.is_cell("x")


def test_name_that_is_no_cell_is_refused() -> None:
    with pytest.raises(
        AssemblyError, match=r"'x' is no cell or free variable; cells: \['c'\], free variables: \['f'\]"
    ):
        slots.cell("LOAD_DEREF", "x")


def test_free_variable_is_not_made_into_a_cell() -> None:
    with pytest.raises(AssemblyError, match="pass it as a cell argument"):
        slots.cell("MAKE_CELL", "f")


def test_flag_of_load_global_counts_for_the_stack() -> None:
    assert written_operand("LOAD_GLOBAL", "x", slots).effect == 0
    assert written_operand("LOAD_GLOBAL", (True, "x"), slots).effect == 1


def test_constants_are_wrapped() -> None:
    argument = written_operand("LOAD_CONST", 1.0, slots).argument
    assert isinstance(argument, Constant)
    assert argument.value == 1.0


def test_decoded_and_written_operands_agree() -> None:
    def f(x: int) -> object:
        return print(x < 1, x + 2)

    for instruction in decode(f.__code__).instructions:
        found = decoded_operand(instruction, slots)
        if instruction.opname in ("LOAD_FAST", "BINARY_OP"):
            assert found == written_operand(instruction.opname, instruction.argval, slots)
        if instruction.opname == "LOAD_GLOBAL":
            assert found == written_operand("LOAD_GLOBAL", (True, "print"), slots)


def test_locations_carry_lines_and_columns() -> None:
    instruction = next(i for i in decode((lambda x: x + 1).__code__).instructions if i.opname == "BINARY_OP")
    location = instruction_location(instruction)
    assert (location.lineno, location.end_lineno) == (instruction.line, instruction.end_line)
    assert (location.col_offset, location.end_col_offset) == (instruction.col, instruction.end_col)
    assert line_location(7).lineno == 7


def test_labels_show_their_name() -> None:
    assert repr(Label("loop")) == "<Label loop>"
