"""Going on in the middle of another function's code."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

import pytest

from graphwright.bytecode import AssemblyError, CodeBuilder, DecodedCode, decode

NewBuilder = Callable[..., CodeBuilder]
ToFunction = Callable[..., FunctionType]


def first(decoded: DecodedCode, opname: str, argval: object = None) -> int:
    """Index of the first instruction of that name (and argument)."""
    return next(i.index for i in decoded.instructions if i.opname == opname and (argval is None or i.argval == argval))


def go_on_at(builder: CodeBuilder, decoded: DecodedCode, index: int) -> None:
    entry = builder.new_label("entry")
    builder.jump(entry)
    builder.splice(decoded, {index: entry})


def test_goes_on_with_values_on_the_stack(new_builder: NewBuilder, to_function: ToFunction) -> None:
    def original(x: int, y: int) -> tuple[str, int]:
        return ("result", abs(x) + y * 2)

    decoded = decode(original.__code__)
    after_call = first(decoded, "CALL") + 1
    builder = new_builder("y")
    builder.load_const("result")
    builder.load_const(100)  # in place of abs(x)
    go_on_at(builder, decoded, after_call)
    assert to_function(builder)(3) == ("result", 106)


def test_handlers_still_hold(new_builder: NewBuilder, to_function: ToFunction) -> None:
    def original(g: Any, log: list[str]) -> str:
        try:
            g(0)
            log.append("between")
            g(1)
        except KeyError as error:
            return f"caught {error.args[0]}"
        finally:
            log.append("finally")
        return "end"

    decoded = decode(original.__code__)
    index = first(decoded, "LOAD_FAST", "log")
    assert decoded.handler_for(index) is not None
    builder = new_builder("g", "log")
    go_on_at(builder, decoded, index)
    function = to_function(builder)

    def fail(number: int) -> None:
        raise KeyError(number)

    for g, result in ((fail, "caught 1"), (int, "end")):
        log: list[str] = []
        assert function(g, log) == result
        assert log == ["between", "finally"]


def test_goes_on_inside_a_loop(new_builder: NewBuilder, to_function: ToFunction) -> None:
    def original(values: list[int]) -> list[int]:
        found = []
        for value in values:
            if value < 0:
                continue
            found.append(value)
        return found

    decoded = decode(original.__code__)
    index = first(decoded, "STORE_FAST", "value")
    builder = new_builder("iterator", "found", "value_now")
    builder.load_fast("iterator")
    builder.load_fast("value_now")
    go_on_at(builder, decoded, index)
    assert to_function(builder)(iter([1, -2, 3]), [0], 10) == [0, 10, 1, 3]


def test_only_what_can_run_is_emitted(new_builder: NewBuilder) -> None:
    def original(x: Any) -> Any:
        first_use = only_before(x)  # type: ignore[name-defined]  # noqa: F821
        return only_after(first_use)  # type: ignore[name-defined]  # noqa: F821

    decoded = decode(original.__code__)
    builder = new_builder("first_use")
    go_on_at(builder, decoded, first(decoded, "STORE_FAST") + 1)
    assert builder.assemble().co_names == ("only_after",)


def test_own_code_may_call_into_two_places(new_builder: NewBuilder, to_function: ToFunction) -> None:
    def original(x: int) -> str:
        if x:
            return "true"
        return "false"

    decoded = decode(original.__code__)
    jump = next(i for i in decoded.instructions if i.target is not None)
    assert jump.target is not None
    builder = new_builder("flag")
    when_true, when_false = builder.new_label("true"), builder.new_label("false")
    builder.load_fast("flag")
    builder.pop_jump_if_true(when_true)
    builder.jump(when_false)
    builder.splice(decoded, {jump.index + 1: when_true, jump.target: when_false})
    function = to_function(builder)
    assert (function(1), function(0)) == ("true", "false")


def test_cells_go_on_being_shared(new_builder: NewBuilder, to_function: ToFunction) -> None:
    def original(x: int) -> tuple[int, Any]:
        def read() -> int:
            return x

        marker()  # type: ignore[name-defined]  # noqa: F821
        x += 1
        return x, read

    decoded = decode(original.__code__)
    index = first(decoded, "POP_TOP") + 1
    builder = new_builder("read", "x", cell_arguments=("x",))
    go_on_at(builder, decoded, index)
    cell = CellType(5)
    value, _ = to_function(builder)("read", cell)
    assert value == 6
    assert cell.cell_contents == 6


def test_cells_may_come_as_free_variables(new_builder: NewBuilder, to_function: ToFunction) -> None:
    def original(x: int) -> Any:
        def read() -> int:
            return x

        return read

    decoded = decode(original.__code__)
    builder = new_builder(freevars=("x",))
    go_on_at(builder, decoded, 0)
    cell = CellType(5)
    assert to_function(builder, (cell,))()() == 5


def test_captured_variable_of_a_comprehension(new_builder: NewBuilder, to_function: ToFunction) -> None:
    def original(x: int, values: list[int]) -> Any:
        functions = [lambda: x for x in values]
        return x, [f() for f in functions], lambda: x

    decoded = decode(original.__code__)
    start = first(decoded, "RESUME") + 1
    builder = new_builder("x", "values", cell_arguments=("x",))
    go_on_at(builder, decoded, start)
    x, found, read = to_function(builder)(CellType(1), [7, 8])
    assert (x, found, read()) == (1, [8, 8], 1)


def test_traceback_shows_the_users_line(new_builder: NewBuilder, to_function: ToFunction) -> None:
    def original(x: int) -> float:
        before = x
        return 1 / before

    decoded = decode(original.__code__)
    builder = new_builder("before")
    go_on_at(builder, decoded, first(decoded, "STORE_FAST") + 1)
    with pytest.raises(ZeroDivisionError) as caught:
        to_function(builder)(0)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].lineno == original.__code__.co_firstlineno + 2


def test_protected_splice_reaches_the_outer_handler(new_builder: NewBuilder, to_function: ToFunction) -> None:
    def original(x: int) -> float:
        return 1 / x

    decoded = decode(original.__code__)
    builder = new_builder("x")
    entry, handler = builder.new_label("entry"), builder.new_label("handler")
    region = builder.try_begin(handler)
    builder.jump(entry)
    builder.splice(decoded, {1: entry})
    builder.try_end(region)
    builder.label(handler)
    builder.push_exc_info()
    builder.pop_top()
    builder.pop_except()
    builder.load_const("caught")
    builder.return_value()
    function = to_function(builder)
    assert (function(0), function(2)) == ("caught", 0.5)


def test_wrong_entries_are_refused(new_builder: NewBuilder) -> None:
    builder = new_builder()
    entry = builder.new_label()
    builder.jump(entry)
    with pytest.raises(AssemblyError, match=r"has no instructions \[1000\] to enter at"):
        builder.splice(decode((lambda: 1).__code__), {1000: entry})


def test_wrong_number_of_values_on_the_stack_is_refused(new_builder: NewBuilder) -> None:
    decoded = decode((lambda x, y: x + y).__code__)
    builder = new_builder()
    builder.load_const(1)
    go_on_at(builder, decoded, first(decoded, "BINARY_OP"))
    with pytest.raises(AssemblyError, match="takes 2 values from a stack of 1"):
        builder.assemble()


def test_cell_that_is_a_plain_local_here_is_refused(new_builder: NewBuilder) -> None:
    def original(x: int) -> Any:
        return lambda: x

    decoded = decode(original.__code__)
    builder = new_builder("x")
    entry = builder.new_label()
    builder.jump(entry)
    with pytest.raises(AssemblyError, match=r"'x' is a cell in .*original.*, but a plain local in the new code"):
        builder.splice(decoded, {first(decoded, "RESUME") + 1: entry})


def test_plain_local_that_is_a_cell_here_is_refused(new_builder: NewBuilder) -> None:
    decoded = decode((lambda x: x).__code__)
    builder = new_builder("x", cellvars=("x",))
    entry = builder.new_label()
    builder.jump(entry)
    with pytest.raises(AssemblyError, match=r"'x' is a plain local in .*, but a cell in the new code"):
        builder.splice(decoded, {1: entry})


def test_control_leaves_at_exits(new_builder: NewBuilder, to_function: ToFunction) -> None:
    def original(x: int) -> int:
        doubled = x * 2
        return abs(doubled)

    decoded = decode(original.__code__)
    builder = new_builder("x")
    entry, out = builder.new_label("entry"), builder.new_label("out")
    builder.jump(entry)
    start, end = first(decoded, "LOAD_FAST", "x"), first(decoded, "BINARY_OP") + 1
    builder.splice(decoded, {start: entry}, {end: out})
    builder.label(out, depth=1)
    builder.return_value()
    code = builder.assemble()
    assert to_function(builder)(-4) == -8
    assert "abs" not in code.co_names


def test_conditional_jump_may_be_an_exit(new_builder: NewBuilder, to_function: ToFunction) -> None:
    def original(x: int) -> str:
        if x:
            return "true"
        return "false"

    decoded = decode(original.__code__)
    jump = next(i for i in decoded.instructions if i.target is not None)
    assert jump.target is not None
    builder = new_builder("x")
    entry, when_true, when_false = builder.new_label("entry"), builder.new_label("true"), builder.new_label("false")
    builder.jump(entry)
    builder.splice(decoded, {first(decoded, "LOAD_FAST"): entry}, {jump.index + 1: when_true, jump.target: when_false})
    for label in (when_true, when_false):
        builder.label(label, depth=0)
        builder.load_const(f"left for {label.name}")
        builder.return_value()
    function = to_function(builder)
    assert (function(1), function(0)) == ("left for true", "left for false")
