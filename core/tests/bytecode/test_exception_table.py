"""The parser of exception tables."""

from __future__ import annotations

import dis
from types import CodeType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwright.bytecode import BytecodeError
from graphwright.bytecode.exception_table import TableEntry, parse_exception_table

numbers = st.integers(0, 2**30)
entries = st.builds(
    lambda start, length, target, depth, lasti: TableEntry(start, start + length, target, depth, lasti),
    numbers,
    numbers,
    numbers,
    st.integers(0, 5000),
    st.booleans(),
)


def encode_varint(value: int, first_byte_mark: int = 0) -> bytes:
    digits = [value & 0x3F]
    while value := value >> 6:
        digits.append(value & 0x3F | 0x40)
    digits[-1] |= first_byte_mark
    return bytes(reversed(digits))


def encode_entry(entry: TableEntry) -> bytes:
    fields = (entry.end - entry.start, entry.target, entry.depth << 1 | entry.lasti)
    return encode_varint(entry.start, 0x80) + b"".join(map(encode_varint, fields))


@given(st.lists(entries, max_size=6))
def test_reads_what_was_written(table: list[TableEntry]) -> None:
    assert parse_exception_table(b"".join(map(encode_entry, table))) == table


def test_empty_table_has_no_entries() -> None:
    assert parse_exception_table(b"") == []


@given(entries, st.data())
def test_truncated_table_is_refused(entry: TableEntry, data: st.DataObject) -> None:
    encoded = encode_entry(entry)
    cut = data.draw(st.integers(1, len(encoded) - 1))
    with pytest.raises(BytecodeError, match="ends inside an entry"):
        parse_exception_table(encoded[:cut])


def test_agrees_with_dis_on_the_standard_library(library_code: list[CodeType]) -> None:
    for code in library_code:
        found = [(2 * e.start, 2 * e.end, 2 * e.target, e.depth, e.lasti) for e in _parse(code)]
        expected = [(e.start, e.end, e.target, e.depth, e.lasti) for e in dis._parse_exception_table(code)]  # type: ignore[attr-defined]
        assert found == expected


def _parse(code: CodeType) -> list[TableEntry]:
    return parse_exception_table(code.co_exceptiontable)
