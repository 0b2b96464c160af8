"""Liveness: single cases, and a check on random programs that it never calls a variable dead that is still read."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from graphwright.bytecode import CodeBuilder, DecodedCode, argument_count, decode, is_live, live_names
from graphwright.bytecode.depth import stack_depths

# ruff: noqa: F821  names that are never bound, or bound no more


def live_before(function: Callable[..., Any], opname: str, argval: object) -> set[str]:
    """Return what is live before the first instruction of that name and argument."""
    decoded = decode(function.__code__)
    index = next(i.index for i in decoded.instructions if i.opname == opname and i.argval == argval)
    return set(live_names(decoded, index))


def straight(a: Any, b: Any) -> Any:
    c = a + 1
    b = marker(c)  # type: ignore[name-defined]
    return b + c


def test_overwritten_variable_is_dead() -> None:
    assert live_before(straight, "LOAD_GLOBAL", "marker") == {"c"}


def test_names_come_in_the_order_of_the_slots() -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        return c, a

    assert live_names(decode(f.__code__), 0) == ("a", "c")


def test_is_live_asks_for_one_name() -> None:
    decoded = decode(straight.__code__)
    assert is_live(decoded, 0, "a")
    assert not is_live(decoded, 0, "b")


def test_variable_read_on_one_branch_is_live_before_the_branch() -> None:
    def f(a: Any, b: Any) -> Any:
        marker()  # type: ignore[name-defined]
        if a:
            return b
        return 1

    assert live_before(f, "LOAD_GLOBAL", "marker") == {"a", "b"}


def test_loops_keep_what_the_next_round_reads() -> None:
    def f(values: Any, total: Any, extra: Any) -> Any:
        for value in values:
            total = total + extra
            marker(value)  # type: ignore[name-defined]
        return 0

    assert live_before(f, "LOAD_GLOBAL", "marker") == {"value", "total", "extra"}


def test_exception_edge_keeps_what_the_handler_reads() -> None:
    def f(x: Any, y: Any) -> Any:
        try:
            x = marker(y)  # type: ignore[name-defined]
        except ValueError:
            return x
        return 0

    assert live_before(f, "LOAD_GLOBAL", "marker") == {"x", "y"}


def test_storing_a_local_does_not_raise() -> None:
    def f(x: Any) -> Any:
        try:
            x = marker()  # type: ignore[name-defined]
        except ValueError:
            return x
        return 0

    assert live_before(f, "STORE_FAST", "x") == set()


def test_deleting_needs_the_variable_to_be_bound() -> None:
    def f(x: Any) -> Any:
        marker()  # type: ignore[name-defined]
        del x
        return 0

    assert live_before(f, "LOAD_GLOBAL", "marker") == {"x"}


def test_cells_are_live_while_anything_names_them() -> None:
    def f(x: Any, y: Any) -> Any:
        def g() -> Any:
            return x, y

        marker(g)  # type: ignore[name-defined]
        x = 1
        return 0

    assert live_before(f, "LOAD_GLOBAL", "marker") == {"x", "g"}


def test_free_variables_are_live_where_they_are_read() -> None:
    def outer(x: Any) -> Any:
        def f() -> Any:
            marker()  # type: ignore[name-defined]
            return x

        return f

    assert live_before(outer(1), "LOAD_GLOBAL", "marker") == {"x"}


def test_arguments_that_become_cells_are_live_at_entry() -> None:
    def f(x: Any) -> Any:
        return lambda: x

    assert live_names(decode(f.__code__), 0) == ("x",)


def test_own_cells_are_not_live_at_entry() -> None:
    def f(a: Any) -> Any:
        x = a
        return lambda: x

    assert live_names(decode(f.__code__), 0) == ("a",)


@pytest.mark.parametrize("reader", ["locals", "eval", "exec", "vars", "dir", "breakpoint"])
def test_functions_that_look_at_locals_keep_all_of_them(reader: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def f(a, b):\n    c = 1\n    marker()\n    return {reader}('a')", namespace)
    assert live_before(namespace["f"], "LOAD_GLOBAL", "marker") == {"a", "b", "c"}


class Base:
    def method(self) -> Any:
        return 1


class Derived(Base):
    def method(self, other: Any = None) -> Any:
        marker()  # type: ignore[name-defined]
        return super().method()


def test_super_keeps_the_first_argument_and_the_class() -> None:
    assert live_before(Derived.method, "LOAD_GLOBAL", "marker") == {"self", "__class__"}


def test_comprehension_variable_does_not_leak_out() -> None:
    def f(values: Any) -> Any:
        marker()  # type: ignore[name-defined]
        return [value for value in values]

    assert "values" in live_before(f, "LOAD_GLOBAL", "marker")


def test_argument_count_takes_in_all_kinds() -> None:
    def f(a: Any, /, b: Any, *args: Any, c: Any, **kwargs: Any) -> None:
        d = 1

    assert f.__code__.co_varnames[: argument_count(f.__code__)] == ("a", "b", "c", "args", "kwargs")


# --- Random programs


class Programs:
    """Writes random functions. Plain `random`: strategies for whole programs take a second for each example."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def function(self) -> str:
        return "\n".join(["def f(a, b, log):", *_indent(["c, d = 3, 4", *self.block(3, 5), "return a, b, log"])])

    def expression(self, depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.4:
            return self.random.choice([*"abcd", "1", "2"])
        form = self.random.choice(EXPRESSIONS)
        return form.format(*(self.expression(depth - 1) for _ in range(form.count("{}"))))

    def block(self, depth: int, size: int | None = None) -> list[str]:
        size = size or self.random.randint(1, 3)
        return [line for _ in range(size) for line in self.statement(depth)]

    def statement(self, depth: int) -> list[str]:
        variable, value = self.random.choice("abcd"), self.expression()
        if depth == 0 or self.random.random() < 0.5:
            return [self.random.choice(SIMPLE_STATEMENTS).format(variable=variable, value=value)]
        form = self.random.choice(COMPOUND_STATEMENTS)
        lines = []
        for line in form.format(variable=variable, value=value).splitlines():
            lines += [line] if not line.endswith(":") else [line, *_indent(self.block(depth - 1))]
        return lines


EXPRESSIONS = (
    "({} + {})",
    "({} // {})",
    "({} if {} else {})",
    "({} and {})",
    "sum([e + {} for e in range({} % 3)])",
)
SIMPLE_STATEMENTS = (
    *["{variable} = {value}"] * 6,
    *["{variable} += {value}"] * 3,
    *["log.append({value})"] * 6,
    "del {variable}",
    "return {value}",
)
COMPOUND_STATEMENTS = (
    "if {value}:\nelse:",
    "for {variable} in range(({value}) % 4):",
    "for {variable} in range(3):\n    if {value}: break",
    "try:\nexcept (ZeroDivisionError, NameError):",
    "try:\nfinally:",
    "with suppress(ZeroDivisionError):",
)


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def empty_stack_indices(code: CodeType) -> list[int]:
    """Return the instructions of the body that are reached with nothing on the stack."""
    decoded = decode(code)
    start = next(i.index for i in decoded.instructions if i.opname == "RESUME") + 1
    return [index for index, depth in enumerate(stack_depths(decoded)) if depth == 0 and index >= start]


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return "returned", function(*args)
    except Exception as error:  # Any outcome is compared with the original's.
        return "raised", type(error), str(error)


def locals_at(function: FunctionType, index: int, args: tuple[Any, ...]) -> dict[str, Any] | None:
    """Run a function and return its locals when it first comes to an instruction, or None."""
    found: list[dict[str, Any]] = []
    offset = decode(function.__code__).instructions[index].offset

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not function.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti == offset and not found:
            found.append({name: list(v) if type(v) is list else v for name, v in frame.f_locals.items()})
        return trace

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        outcome(function, *args)
    finally:
        sys.settrace(old)
    return found[0] if found else None


def resume_at(decoded: DecodedCode, index: int, arguments: tuple[str, ...], names: dict[str, Any]) -> FunctionType:
    """Make a function that goes on at an instruction with only these variables bound."""
    cells = decoded.code.co_cellvars
    own = [name for name in cells if name not in arguments]
    passed = [name for name in cells if name in arguments]
    builder = CodeBuilder("resume", "resume", "resume.py", 1, arguments, cellvars=own, cell_arguments=passed)
    entry = builder.new_label()
    builder.jump(entry)
    builder.splice(decoded, {index: entry})
    return FunctionType(builder.assemble(), names)


class suppress:  # The with statement's simplest useful manager.
    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> bool:
        return kind is not None and issubclass(kind, self.kind)


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=100)
def test_going_on_with_live_variables_only_gives_the_same(seed: int) -> None:
    programs = Programs(seed)
    program = programs.function()
    note(program)
    names: dict[str, Any] = {"suppress": suppress}
    exec(program, names)
    function = names["f"]
    decoded = decode(function.__code__)
    a, b = programs.random.randint(0, 3), programs.random.randint(0, 3)
    expected = outcome(function, a, b, [])
    candidates = empty_stack_indices(function.__code__)
    for index in programs.random.sample(candidates, min(4, len(candidates))):
        present = locals_at(function, index, (a, b, []))
        if present is None:  # Control does not come here with these arguments.
            continue
        note(f"going on at {decoded.instructions[index]} with {present}")
        arguments = tuple(name for name in live_names(decoded, index) if name in present)
        resumed = resume_at(decoded, index, arguments, names)
        values = [CellType(present[n]) if n in function.__code__.co_cellvars else present[n] for n in arguments]
        assert outcome(resumed, *values) == expected
