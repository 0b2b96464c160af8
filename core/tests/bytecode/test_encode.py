"""What CPython does to constants, and what comes out of encoding."""

from __future__ import annotations

import sys

import pytest

from graphwright.bytecode import CodeBuilder, decode
from graphwright.bytecode.encode import interning_replaces


def fresh(text: str) -> str:
    """Return an equal string that is not the interned one."""
    sys.intern(text)
    return "".join(list(text))


@pytest.mark.parametrize("value", [1, "with space", "ü", "", b"name", [fresh("some_name")], None, (1, "a b")])
def test_constants_that_stay_as_they_are(value: object) -> None:
    assert not interning_replaces(value)


@pytest.mark.parametrize("make", [lambda s: s, lambda s: (s,), lambda s: frozenset({s}), lambda s: (1, (s, 2))])
def test_constants_that_interning_would_replace(make: object) -> None:
    assert interning_replaces(make(fresh("some_name")))  # type: ignore[operator]


def test_interned_strings_stay() -> None:
    assert not interning_replaces(sys.intern("some_name"))


def test_neighbouring_regions_are_kept_apart() -> None:
    builder = CodeBuilder("f", "f", "model.py", 1, ("g",))
    first, second = builder.new_label("first"), builder.new_label("second")
    for handler in (first, second):
        with builder.protected_by(handler):
            builder.load_fast("g")
            builder.call(0)
            builder.pop_top()
    builder.load_const(None)
    builder.return_value()
    for handler in (first, second):
        builder.label(handler)
        builder.reraise()
    table = decode(builder.assemble()).exception_table
    assert len(table) == 2
    assert table[0].end == table[1].start
    assert table[0].target != table[1].target


def test_region_over_unreachable_operations_is_left_out() -> None:
    builder = CodeBuilder("f", "f", "model.py", 1)
    builder.load_const(None)
    builder.return_value()
    handler = builder.new_label()
    region = builder.try_begin(handler, depth=0)
    builder.raw("NOP")
    builder.try_end(region)
    builder.label(handler)
    builder.reraise()
    assert decode(builder.assemble()).exception_table == []
