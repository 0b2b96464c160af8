"""Reads the exception table of a code object (`co_exceptiontable`).

Format: CPython, `Objects/exception_handling_notes.txt`. An entry is four big-endian varints of 6 bits a byte
(bit 6: more bytes follow; bit 7: first byte of an entry): start, length, target, `depth << 1 | lasti`. The
first three count code units of two bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from graphwright.bytecode.errors import BytecodeError

_MORE = 0x40
_PAYLOAD = 0x3F


class TableEntry(NamedTuple):
    """One entry of the table, in code units."""

    start: int
    """First unit protected."""
    end: int
    """First unit after the protected ones."""
    target: int
    """Unit of the handler's first instruction."""
    depth: int
    """Stack depth to which the stack is cut before the handler starts."""
    lasti: bool
    """Whether the offset of the raising instruction is pushed before the exception."""


def _read_varint(table: bytes, position: int) -> tuple[int, int]:
    """Return the number that starts at `position`, and the position after it."""
    value = 0
    while True:
        if position >= len(table):
            raise BytecodeError(f"exception table ends inside an entry: {table!r}")
        byte = table[position]
        position += 1
        value = value << 6 | byte & _PAYLOAD
        if not byte & _MORE:
            return value, position


def parse_exception_table(table: bytes) -> list[TableEntry]:
    """Return the entries of an exception table, in the order of the table.

    Args:
        table: `co_exceptiontable` of a code object.

    Raises:
        BytecodeError: The table ends inside an entry.
    """
    entries = []
    position = 0
    while position < len(table):
        start, position = _read_varint(table, position)
        length, position = _read_varint(table, position)
        target, position = _read_varint(table, position)
        depth_lasti, position = _read_varint(table, position)
        entries.append(TableEntry(start, start + length, target, depth_lasti >> 1, bool(depth_lasti & 1)))
    return entries
