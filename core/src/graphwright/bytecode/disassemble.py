"""Decodes a code object into instructions, once for each code object.

`co_code` is read rather than `dis`: it already holds the base opcodes of specialised and instrumented
instructions, and walking it is several times faster.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from types import CodeType
from typing import Any

from graphwright.bytecode.errors import BytecodeError
from graphwright.bytecode.exception_table import TableEntry, parse_exception_table
from graphwright.bytecode.instruction import DecodedBody, DecodedCode, ExceptionRange, Instruction
from graphwright.bytecode.versions import (
    ARG_KINDS,
    ARG_SHIFTS,
    CACHES,
    COMPARISONS,
    EXTENDED_ARG,
    FORMAT_CONVERSIONS,
    FORMATS,
    JUMPS,
    OPNAME,
    ArgKind,
)

# A registry: what it holds follows from the key. Keyed by identity, because equal code objects of two functions are
# different code objects to us. The weak reference removes the entry when the code object dies. The constants that an
# entry holds are held by the code object as well, so the memo keeps nothing alive that would otherwise go.
_memo: dict[int, tuple[weakref.ref[CodeType], DecodedBody]] = {}


def decode(code: CodeType) -> DecodedCode:
    """Decode a code object.

    The work is done once for each code object; its instructions are shared by all callers and must not be modified.

    Args:
        code: The code object of any function, comprehension, class body or module.

    Raises:
        BytecodeError: The bytecode is malformed.
    """
    key = id(code)
    known = _memo.get(key)
    if known is not None and known[0]() is code:
        return DecodedCode(code, known[1])
    body = _decode_body(code)
    _memo[key] = (weakref.ref(code, lambda _: _memo.pop(key, None)), body)
    return DecodedCode(code, body)


def _decode_body(code: CodeType) -> DecodedBody:
    instructions, unit_index = _decode_instructions(code)
    ranges: list[ExceptionRange] = []
    handlers: list[ExceptionRange | None] = [None] * len(instructions)
    for entry in parse_exception_table(code.co_exceptiontable):
        found = _to_range(entry, instructions, unit_index)
        if found.start < found.end:
            ranges.append(found)
            # Entries don't overlap: the compiler flattens nested blocks, so the order does not matter.
            handlers[found.start : found.end] = [found] * (found.end - found.start)
    return DecodedBody(instructions, ranges, handlers, unit_index)


def _to_range(entry: TableEntry, instructions: list[Instruction], unit_index: list[int]) -> ExceptionRange:
    """Convert an entry from code units to instruction indices."""

    def first_index_from(unit: int) -> int:
        if unit >= len(unit_index):
            return len(instructions)
        index = unit_index[unit]
        return index + 1 if instructions[index].offset < unit * 2 else index

    if entry.target >= len(unit_index):
        raise BytecodeError(f"exception table names a handler past the end of the code: {entry}")
    return ExceptionRange(
        first_index_from(entry.start), first_index_from(entry.end), unit_index[entry.target], entry.depth, entry.lasti
    )


def _decode_instructions(code: CodeType) -> tuple[list[Instruction], list[int]]:
    """Return the instructions, and for each code unit the index of the instruction it belongs to."""
    raw = code.co_code
    positions = list(code.co_positions())
    tables = _argument_tables(code)
    instructions: list[Instruction] = []
    unit_index: list[int] = []
    unit = prefix = index = 0
    units = len(raw) >> 1
    while unit < units:
        opcode = raw[unit * 2]
        if opcode == EXTENDED_ARG:
            prefix = (prefix | raw[unit * 2 + 1]) << 8
            unit_index.append(index)
            unit += 1
            continue
        number = prefix | raw[unit * 2 + 1]
        kind = ARG_KINDS[opcode]
        table = tables[kind]
        if table is not None:
            argval = table[number >> ARG_SHIFTS[opcode]]
        elif kind:
            argval = _argument_value(kind, number, unit + 1 + CACHES[opcode], tables)
        else:
            argval = None
        arg = number if kind else None
        instructions.append(Instruction(index, unit * 2, opcode, OPNAME[opcode], arg, argval, None, *positions[unit]))
        span = 1 + CACHES[opcode]
        unit_index.extend([index] * span)
        unit += span
        index += 1
        prefix = 0
    _resolve_targets(code, instructions, unit_index)
    return instructions, unit_index


def _resolve_targets(code: CodeType, instructions: list[Instruction], unit_index: list[int]) -> None:
    for instruction in instructions:
        if instruction.opcode in JUMPS:
            unit = instruction.argval >> 1
            if not 0 <= unit < len(unit_index):
                raise BytecodeError(f"{code.co_qualname}: {instruction!r} jumps out of the code")
            instruction.target = unit_index[unit]


def _argument_tables(code: CodeType) -> list[Sequence[Any] | None]:
    """Return, for each kind of argument, what the argument is an index into; None for kinds that are no index."""
    variables = variable_names(code)
    by_kind: dict[ArgKind, Sequence[Any]] = {
        ArgKind.LOCAL: variables,
        ArgKind.FREE: variables,
        ArgKind.CONST: code.co_consts,
        ArgKind.NAME: code.co_names,
        ArgKind.GLOBAL: code.co_names,
        ArgKind.ATTRIBUTE: code.co_names,
        ArgKind.SUPER_ATTRIBUTE: code.co_names,
        ArgKind.COMPARE: COMPARISONS,
        ArgKind.FORMAT: FORMATS,
        ArgKind.CONVERT: FORMAT_CONVERSIONS,
    }
    return [by_kind.get(kind) for kind in ArgKind]


def _argument_value(kind: ArgKind, arg: int, next_unit: int, tables: list[Sequence[Any] | None]) -> Any:
    """Return the value of an argument that is not an index into a table."""
    if kind is ArgKind.JUMP_FORWARD:
        return (next_unit + arg) * 2
    if kind is ArgKind.JUMP_BACKWARD:
        return (next_unit - arg) * 2
    variables = tables[ArgKind.LOCAL]
    if kind is ArgKind.LOCAL_PAIR and variables is not None:
        return (variables[arg >> 4], variables[arg & 15])
    return arg


def variable_names(code: CodeType) -> tuple[str, ...]:
    """Return the names of a frame's variable slots: locals, then cells that are not locals, then free variables."""
    local_names = code.co_varnames
    own_cells = tuple(name for name in code.co_cellvars if name not in local_names)
    return local_names + own_cells + code.co_freevars
