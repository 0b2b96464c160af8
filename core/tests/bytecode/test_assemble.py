"""`CodeBuilder`: what is emitted runs and means what the method says."""

from __future__ import annotations

import math
import sys
import traceback
from array import array
from collections.abc import Callable
from types import CellType, FunctionType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.bytecode import AssemblyError, CodeBuilder, decode

NewBuilder = Callable[..., CodeBuilder]
ToFunction = Callable[..., FunctionType]


def opnames(builder: CodeBuilder) -> list[str]:
    return [i.opname for i in decode(builder.assemble()).instructions]


# --- Constants


def not_interned() -> str:
    return "".join(["not", "_", "interned", "_", "1"])


CONSTANTS = [
    1,
    1.0,
    True,
    0.0,
    -0.0,
    complex(0.0, -0.0),
    complex(-0.0, 0.0),
    math.nan,
    float("nan"),
    "text",
    "with space",
    b"1",
    array("b", b"1"),
    bytearray(b"1"),
    (1, 2),
    tuple([1, 2]),
    (1.0, 2),
    (True, 2),
    frozenset({1}),
    frozenset([1]),
    [1],
    [1],
    {"a": 1},
    None,
    ...,
    int,
    len,
    object(),
    not_interned(),
    not_interned(),
    (not_interned(), 1),
    frozenset({not_interned()}),
    frozenset({(not_interned(),)}),
]


def test_constants_keep_their_identity(new_builder: NewBuilder, to_function: ToFunction) -> None:
    sys.intern(not_interned())  # Interning must have something else to put in the place of ours.
    builder = new_builder()
    for constant in CONSTANTS:
        builder.load_const(constant)
    builder.build_tuple(len(CONSTANTS))
    builder.return_value()
    for found, given_ in zip(to_function(builder)(), CONSTANTS, strict=True):
        assert found is given_, repr(given_)


def test_constant_tuple_is_not_changed_in_place(new_builder: NewBuilder) -> None:
    sys.intern(not_interned())
    ours = not_interned()
    constant = (ours,)
    builder = new_builder()
    builder.load_const(constant)
    builder.return_value()
    builder.assemble()
    assert constant[0] is ours


def test_same_constant_is_stored_once(new_builder: NewBuilder) -> None:
    value = object()
    builder = new_builder()
    for _ in range(3):
        builder.load_const(value)
    builder.build_tuple(3)
    builder.return_value()
    assert builder.assemble().co_consts.count(value) == 1


def test_string_constant_is_no_docstring(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder()
    builder.load_const("no docstring")
    builder.return_value()
    assert to_function(builder).__doc__ is None


def test_more_constants_than_fit_in_a_byte(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder()
    values = [object() for _ in range(600)]
    for value in values:
        builder.load_const(value)
    builder.build_list(len(values))
    builder.return_value()
    assert to_function(builder)() == values


# --- Variables


def test_locals_are_stored_loaded_and_deleted(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("x")
    builder.load_fast("x")
    builder.store_fast("y")
    builder.load_fast("y")
    builder.delete_fast("y")
    builder.return_value()
    function = to_function(builder)
    assert function(7) == 7
    assert function.__code__.co_varnames == ("x", "y")


def test_globals_are_stored_loaded_and_deleted(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder()
    builder.load_const(1)
    builder.store_global("made")
    builder.load_global("made")
    builder.delete_global("removed")
    builder.return_value()
    function = to_function(builder, removed=2)
    assert function() == 1
    assert function.__globals__["made"] == 1
    assert "removed" not in function.__globals__


def test_attributes_are_loaded_stored_and_deleted(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("x")
    builder.load_const(5)
    builder.load_fast("x")
    builder.store_attr("b")
    builder.load_fast("x")
    builder.delete_attr("a")
    builder.load_fast("x")
    builder.load_attrs("inner.value")
    builder.return_value()
    namespace = SimpleNamespace(a=1, inner=SimpleNamespace(value=3))
    assert to_function(builder)(namespace) == 3
    assert namespace.b == 5
    assert not hasattr(namespace, "a")


def test_free_variables_come_from_the_closure(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("x", freevars=("a", "b"))
    builder.load_deref("b")
    builder.load_fast("x")
    builder.store_fast("b")  # A name of a cell acts on its content.
    builder.load_fast("a")
    builder.build_tuple(2)
    builder.delete_deref("a")
    builder.return_value()
    first, second = CellType(1), CellType(2)
    assert to_function(builder, (first, second))(3) == (2, 1)
    assert second.cell_contents == 3
    with pytest.raises(ValueError, match="empty"):
        _ = first.cell_contents


def test_own_cells_are_made_and_shared_with_inner_functions(new_builder: NewBuilder, to_function: ToFunction) -> None:
    inner = new_builder(freevars=("x", "y"))
    inner.load_deref("x")
    inner.load_deref("y")
    inner.build_tuple(2)
    inner.return_value()
    builder = new_builder("x", cellvars=("x", "y"))
    builder.load_closure("x")
    builder.load_closure("y")
    builder.build_tuple(2)
    builder.load_const(inner.assemble())
    builder.make_function(closure=True)
    builder.load_const(9)
    builder.store_deref("y")
    builder.return_value()
    assert to_function(builder)(4)() == (4, 9)


def test_function_without_closure(new_builder: NewBuilder, to_function: ToFunction) -> None:
    inner = new_builder()
    inner.load_global("value")
    inner.return_value()
    builder = new_builder()
    builder.load_const(inner.assemble())
    builder.make_function()
    builder.return_value()
    assert to_function(builder, value=3)()() == 3


def test_cell_arguments_act_on_the_cell_that_is_passed(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("a", "x", cell_arguments=("x",))
    builder.load_deref("x")
    builder.load_fast("a")
    builder.store_deref("x")
    builder.load_closure("x")
    builder.build_tuple(2)
    builder.return_value()
    cell = CellType("old")
    assert to_function(builder)("new", cell) == ("old", cell)
    assert cell.cell_contents == "new"


# --- Calls


def record(*args: Any, **kwargs: Any) -> Any:
    return ("called", args, tuple(kwargs.items()))


def test_call_needs_no_shuffling(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("x", "inputs")
    builder.load_global("record")
    builder.load_attr("__call__")
    builder.load_fast("x")
    builder.load_global("record")
    builder.load_fast("inputs")
    builder.call_ex()
    builder.call(2)
    builder.return_value()
    assert not {"SWAP", "COPY"} & set(opnames(builder))
    assert to_function(builder, record=record)(1, (2, 3)) == record(1, record(2, 3))


def test_call_with_keywords(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder()
    builder.load_global("record")
    for value in range(3):
        builder.load_const(value)
    builder.call(3, kwnames=("b", "a"))
    builder.return_value()
    assert to_function(builder, record=record)() == record(0, b=1, a=2)


def test_call_with_unpacked_keywords(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("args", "kwargs")
    builder.load_global("record")
    builder.load_fast("args")
    builder.load_fast("kwargs")
    builder.call_ex(has_kwargs=True)
    builder.return_value()
    assert to_function(builder, record=record)((1,), {"k": 2}) == record(1, k=2)


def test_methods_are_called(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("text")
    builder.load_fast("text")
    builder.load_method("replace")
    builder.load_const("a")
    builder.load_const("b")
    builder.call(2)
    builder.return_value()
    assert to_function(builder)("banana") == "bbnbnb"


def test_method_may_be_a_plain_attribute(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("x")
    builder.load_fast("x")
    builder.load_method("run")
    builder.load_const(1)
    builder.call(1)
    builder.return_value()
    assert to_function(builder)(SimpleNamespace(run=record)) == record(1)


def test_callable_that_was_on_the_stack_before_a_label(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("x")
    other, both = builder.new_label("other"), builder.new_label("both")
    builder.load_global("record")
    builder.load_const("first")
    builder.load_fast("x")
    builder.pop_jump_if_true(other)
    builder.load_const("false")
    builder.jump(both)
    builder.label(other)
    builder.load_const("true")
    builder.label(both)
    builder.call(2)
    builder.return_value()
    function = to_function(builder, record=record)
    assert function(0) == record("first", "false")
    assert function(1) == record("first", "true")


def test_callable_out_of_an_unpacked_sequence(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("pair")
    builder.load_const("kept")
    builder.load_fast("pair")
    builder.unpack_sequence(2)
    builder.call(1)
    builder.build_tuple(2)
    builder.return_value()
    assert to_function(builder, record=record)((5, record)) == ("kept", record(5))


def test_callable_between_values_that_copy_reaches_over(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("x")
    builder.load_fast("x")
    builder.load_global("record")
    builder.copy(2)
    builder.copy(3)
    builder.call(2)
    builder.build_tuple(2)
    builder.return_value()
    assert to_function(builder, record=record)(4) == (4, record(4, 4))


def test_null_pushed_by_hand_is_used(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder()
    if sys.version_info < (3, 13):
        builder.push_null()
        builder.load_global("record")
    else:
        builder.load_global("record")
        builder.push_null()
    builder.call(0)
    builder.return_value()
    assert opnames(builder).count("PUSH_NULL") == 1
    assert to_function(builder, record=record)() == record()


expressions = st.recursive(
    st.one_of(
        st.builds(lambda value: ("const", value), st.integers(0, 5)),
        st.just(("name",)),
    ),
    lambda inner: st.one_of(
        st.builds(lambda items: ("tuple", items), st.lists(inner, max_size=3)),
        st.builds(
            lambda args, kwargs: ("call", args, kwargs), st.lists(inner, max_size=3), st.lists(inner, max_size=2)
        ),
        st.builds(lambda args: ("method", args), st.lists(inner, max_size=3)),
        st.builds(lambda args: ("call_ex", args), inner),
        st.builds(lambda test, yes, no: ("if", test, yes, no), inner, inner, inner),
        st.builds(lambda value: ("let", value), inner),
        st.builds(lambda value, rest: ("duplicate", value, rest), inner, inner),
    ),
    max_leaves=12,
)


class _Emit:
    """Emits an expression, and says what it is worth."""

    def __init__(self, builder: CodeBuilder) -> None:
        self.builder = builder

    def __call__(self, node: Any) -> Any:
        return getattr(self, "emit_" + node[0])(*node[1:])

    def all(self, nodes: Any) -> list[Any]:
        return [self(node) for node in nodes]

    def emit_const(self, value: int) -> Any:
        self.builder.load_const(value)
        return value

    def emit_name(self) -> Any:
        self.builder.load_fast("x")
        return "x"

    def emit_tuple(self, nodes: Any) -> Any:
        values = tuple(self.all(nodes))
        self.builder.build_tuple(len(nodes))
        return values

    def emit_call(self, args: Any, kwargs: Any) -> Any:
        names = [f"k{i}" for i in range(len(kwargs))]
        self.builder.load_global("record")
        values, keywords = self.all(args), self.all(kwargs)
        self.builder.call(len(args) + len(kwargs), names)
        return record(*values, **dict(zip(names, keywords, strict=True)))

    def emit_method(self, args: Any) -> Any:
        self.builder.load_global("holder")
        self.builder.load_method("record")
        values = self.all(args)
        self.builder.call(len(args))
        return record(*values)

    def emit_call_ex(self, node: Any) -> Any:
        self.builder.load_global("record")
        value = self(node)
        self.builder.build_tuple(1)
        self.builder.call_ex()
        return record(value)

    def emit_if(self, test: Any, yes: Any, no: Any) -> Any:
        otherwise, end = self.builder.new_label(), self.builder.new_label()
        condition = self(test)
        self.builder.pop_jump_if_false(otherwise)
        when_true = self(yes)
        self.builder.jump(end)
        self.builder.label(otherwise)
        when_false = self(no)
        self.builder.label(end)
        return when_true if condition else when_false

    def emit_let(self, node: Any) -> Any:
        value = self(node)
        self.builder.store_fast("temporary")
        self.builder.load_fast("temporary")
        return value

    def emit_duplicate(self, node: Any, rest: Any) -> Any:
        value = self(node)
        self.builder.copy()
        other = self(rest)
        self.builder.rotate(3)
        self.builder.build_tuple(3)
        return (other, value, value)


@given(expressions)
@settings(deadline=None)
def test_nested_calls_find_their_callables(expression: Any) -> None:
    builder = CodeBuilder("f", "f", "model.py", 1, ("x",))
    expected = _Emit(builder)(expression)
    builder.return_value()
    namespace = {"record": record, "holder": SimpleNamespace(record=record)}
    assert FunctionType(builder.assemble(), namespace)("x") == expected


# --- Containers, operators, stack order


def test_containers_are_built(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("x", "y")
    for build in (builder.build_tuple, builder.build_list, builder.build_set, builder.build_slice):
        builder.load_fast("x")
        builder.load_fast("y")
        build(2)
    builder.load_fast("x")
    builder.load_fast("y")
    builder.build_map(1)
    builder.build_list(0)
    builder.load_const((1, 2))
    builder.list_extend()
    builder.load_const("a")
    builder.load_const("b")
    builder.build_string(2)
    builder.build_tuple(7)
    builder.return_value()
    assert to_function(builder)(1, 2) == ((1, 2), [1, 2], {1, 2}, slice(1, 2), {1: 2}, [1, 2], "ab")


def test_subscripts(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("d")
    builder.load_const("value")
    builder.load_fast("d")
    builder.load_const("key")
    builder.store_subscr()
    builder.load_fast("d")
    builder.load_const("old")
    builder.delete_subscr()
    builder.load_fast("d")
    builder.load_const("key")
    builder.binary_subscr()
    builder.return_value()
    target = {"old": 1}
    assert to_function(builder)(target) == "value"
    assert target == {"key": "value"}


def test_operators(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("x", "y")
    for symbol in ("-", "//=", "@="):
        builder.load_fast("x")
        builder.load_fast("y")
        if symbol != "@=":
            builder.binary_op(symbol)
        else:
            builder.compare_op("<")
    builder.load_fast("x")
    builder.load_const(None)
    builder.is_op(invert=True)
    builder.load_fast("x")
    builder.load_const((7, 8))
    builder.contains_op()
    builder.load_fast("x")
    builder.unary_not()
    builder.build_tuple(6)
    builder.return_value()
    assert to_function(builder)(7, 2) == (5, 3, False, True, True, False)


def test_stack_order(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder()
    for value in "abcd":
        builder.load_const(value)
    builder.rotate(3)  # a d b c
    builder.swap()  # a d c b
    builder.swap(4)  # b d c a
    builder.copy(3)  # b d c a d
    builder.load_const("dropped")
    builder.pop_top()
    builder.build_tuple(5)
    builder.return_value()
    assert to_function(builder)() == ("b", "d", "c", "a", "d")


def test_unpacking_puts_the_first_on_top(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("x")
    builder.load_fast("x")
    builder.unpack_sequence(3)
    builder.build_tuple(3)
    builder.return_value()
    assert to_function(builder)([1, 2, 3]) == (3, 2, 1)


# --- Jumps


@pytest.mark.parametrize(
    ("method", "taken"),
    [
        ("pop_jump_if_true", [1, "a", 0.5]),
        ("pop_jump_if_false", [0, "", None]),
        ("pop_jump_if_none", [None]),
        ("pop_jump_if_not_none", [0, 1, "", "a", 0.5]),
    ],
)
def test_conditional_jumps_forward(
    new_builder: NewBuilder, to_function: ToFunction, method: str, taken: list[object]
) -> None:
    builder = new_builder("x")
    there = builder.new_label("there")
    builder.load_fast("x")
    getattr(builder, method)(there)
    builder.load_const("fell through")
    builder.return_value()
    builder.label(there)
    builder.load_const("jumped")
    builder.return_value()
    function = to_function(builder)
    for value in (0, 1, "", "a", None, 0.5):
        expected = any(value is t or (type(value) is type(t) and value == t) for t in taken)
        assert (function(value) == "jumped") == expected, value


@pytest.mark.parametrize(
    ("method", "stop"),
    [("pop_jump_if_true", 0), ("pop_jump_if_false", 1), ("pop_jump_if_none", 0), ("pop_jump_if_not_none", None)],
)
def test_conditional_jumps_backward(
    new_builder: NewBuilder, to_function: ToFunction, method: str, stop: object
) -> None:
    again = {"pop_jump_if_true": 1, "pop_jump_if_false": 0, "pop_jump_if_none": None, "pop_jump_if_not_none": 0}[method]
    builder = new_builder("values")
    top = builder.label()
    builder.load_fast("values")
    builder.load_method("pop")
    builder.call(0)
    getattr(builder, method)(top)
    builder.load_fast("values")
    builder.return_value()
    assert to_function(builder)(["left", stop, again, again]) == ["left"]


def test_long_jumps(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("n")
    top, end = builder.label(), builder.new_label("end")
    builder.load_fast("n")
    builder.pop_jump_if_false(end)
    for _ in range(300):
        builder.load_fast("n")
        builder.load_const(0)
        builder.binary_op("+")
        builder.store_fast("n")
    builder.load_fast("n")
    builder.load_const(1)
    builder.binary_op("-")
    builder.store_fast("n")
    builder.jump(top)
    builder.label(end)
    builder.load_const("done")
    builder.return_value()
    assert to_function(builder)(3) == "done"


def test_for_loop(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("values")
    builder.load_const(0)
    builder.store_fast("total")
    builder.load_fast("values")
    builder.get_iter()
    top, end = builder.label(), builder.new_label("end")
    builder.for_iter(end)
    builder.load_fast("total")
    builder.binary_op("+")
    builder.store_fast("total")
    builder.jump(top)
    builder.end_for(end)
    builder.load_fast("total")
    builder.return_value()
    assert to_function(builder)([1, 2, 3]) == 6


# --- Exceptions


def catching(builder: CodeBuilder, lasti: bool = False) -> None:
    """Emit: call the argument `g`; if that raises, return ("caught", exception)."""
    handler = builder.new_label("handler")
    with builder.protected_by(handler, lasti=lasti):
        builder.load_fast("g")
        builder.call(0)
        builder.return_value()
    builder.label(handler)
    builder.push_exc_info()
    builder.load_const("caught")
    builder.swap()
    builder.build_tuple(2)
    builder.swap()
    builder.pop_except()
    if lasti:
        builder.swap()
        builder.pop_top()
    builder.return_value()


@pytest.mark.parametrize("lasti", [False, True])
def test_handlers_get_the_exception(new_builder: NewBuilder, to_function: ToFunction, lasti: bool) -> None:
    builder = new_builder("g")
    catching(builder, lasti)
    function = to_function(builder)
    error = KeyError("k")

    def fail() -> None:
        raise error

    assert function(lambda: 5) == 5
    assert function(fail) == ("caught", error)
    assert sys.exc_info() == (None, None, None)


def test_values_below_a_region_survive(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("g")
    builder.load_const("below")
    handler = builder.new_label("handler")
    region = builder.try_begin(handler)
    builder.load_const("lost")
    builder.load_fast("g")
    builder.call(0)
    builder.build_tuple(3)
    builder.return_value()
    builder.try_end(region)
    builder.label(handler)
    builder.push_exc_info()
    builder.pop_top()
    builder.pop_except()
    builder.return_value()
    assert to_function(builder)(lambda: [][0]) == "below"


def test_regions_nest(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("first", "second", "third")
    outer, inner = builder.new_label("outer"), builder.new_label("inner")
    around = builder.try_begin(outer)
    builder.load_fast("first")
    builder.call(0)
    builder.pop_top()
    within = builder.try_begin(inner)
    builder.load_fast("second")
    builder.call(0)
    builder.pop_top()
    builder.try_end(within)
    builder.load_fast("third")
    builder.call(0)
    builder.return_value()
    builder.try_end(around)
    for label in (outer, inner):
        builder.label(label)
        builder.push_exc_info()
        builder.pop_top()
        builder.pop_except()
        builder.load_const(label.name)
        builder.return_value()
    function = to_function(builder)

    def fail() -> None:
        raise ValueError

    assert function(fail, int, int) == "outer"
    assert function(int, fail, int) == "inner"
    assert function(int, int, fail) == "outer"
    assert function(int, int, int) == 0


def test_reraise_keeps_the_exception(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("g", "kind")
    handler, other = builder.new_label("handler"), builder.new_label("other")
    with builder.protected_by(handler):
        builder.load_fast("g")
        builder.call(0)
        builder.return_value()
    builder.label(handler)
    builder.push_exc_info()
    builder.load_fast("kind")
    builder.check_exc_match()
    builder.pop_jump_if_false(other)
    builder.pop_top()
    builder.pop_except()
    builder.load_const("matched")
    builder.return_value()
    builder.label(other)
    builder.swap()
    builder.pop_except()
    builder.reraise()
    function = to_function(builder)
    assert function(lambda: {}["k"], KeyError) == "matched"
    with pytest.raises(KeyError, match="k"):
        function(lambda: {}["k"], ValueError)
    assert sys.exc_info() == (None, None, None)


def test_raise(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("error", "cause")
    builder.load_fast("error")
    builder.load_fast("cause")
    builder.raise_(2)
    cause = KeyError("cause")
    with pytest.raises(ValueError, match=r"^e$") as caught:
        to_function(builder)(ValueError("e"), cause)
    assert caught.value.__cause__ is cause


# --- Names and positions


def test_names_and_first_line_are_kept(new_builder: NewBuilder) -> None:
    builder = new_builder("x", flags=0x13)
    builder.load_fast("x")
    builder.return_value()
    code = builder.assemble()
    assert (code.co_name, code.co_qualname, code.co_filename, code.co_firstlineno) == ("f", "C.f", "model.py", 12)
    assert (code.co_argcount, code.co_flags) == (1, 0x13)


def test_traceback_shows_the_line_that_was_set(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("g")
    builder.set_lineno(40)
    builder.load_fast("g")
    builder.call(0)
    builder.set_lineno(41)
    builder.load_const(1)
    builder.call(1)
    builder.return_value()

    def g(*args: object) -> Any:
        return 1 // 0 if args else g

    with pytest.raises(ZeroDivisionError) as caught:
        to_function(builder)(g)
    lines = [frame.lineno for frame in traceback.extract_tb(caught.value.__traceback__) if frame.filename == "model.py"]
    assert lines == [41]


def test_position_of_a_decoded_instruction_is_taken_over(new_builder: NewBuilder) -> None:
    original = next(i for i in decode((lambda: len("x")).__code__).instructions if i.opname == "CALL")
    builder = new_builder()
    builder.set_position(original)
    builder.load_const(1)
    builder.return_value()
    copied = decode(builder.assemble()).instructions[-1]
    assert (copied.line, copied.end_line, copied.col, copied.end_col) == (
        original.line,
        original.end_line,
        original.col,
        original.end_col,
    )


# --- Refusals


def test_raw_emits_any_instruction(new_builder: NewBuilder, to_function: ToFunction) -> None:
    builder = new_builder("x")
    builder.raw("LOAD_FAST", "x")
    builder.raw("UNARY_NEGATIVE")
    builder.raw("LOAD_CONST", 3)
    builder.raw("BINARY_OP", 0)
    builder.raw("RETURN_VALUE")
    assert to_function(builder)(1) == 2


@pytest.mark.parametrize(
    ("emit", "message"),
    [
        (lambda b: b.raw("NO_SUCH"), "no instruction 'NO_SUCH'"),
        (lambda b: b.raw("POP_TOP", 1), "takes no argument"),
        (lambda b: b.raw("LOAD_FAST", 3), "takes a name"),
        (lambda b: b.raw("BUILD_TUPLE", "x"), "takes an integer"),
        (lambda b: b.raw("JUMP_FORWARD", 3), "jumps to a Label"),
        (lambda b: b.pop_top(), "takes 1 values from a stack of 0"),
        (lambda b: b.load_deref("x"), "'x' is no cell or free variable"),
        (lambda b: b.binary_op("<"), "no operator '<'"),
        (lambda b: (b.load_fast("x"), b.load_fast("x"), b.compare_op("+")), r"no comparison '\+'"),
        (lambda b: (b.load_fast("x"), b.call(1)), "1 values and their callable on a stack of 1"),
        (lambda b: (b.load_fast("x"), b.call(0, ("k",))), "1 keyword names for 0 arguments"),
        (lambda b: (b.load_fast("x"), b.return_value(), b.call(0)), "the stack is not known here"),
        (lambda b: (label := b.label(), b.label(label)), "placed twice"),
        (lambda b: (b.jump(label := b.new_label("l")), b.label(label, depth=1)), "reached with 0"),
        (lambda b: b.try_end(b.try_begin(b.new_label()) and None), "not the innermost"),
        (lambda b: b.splice(decode((lambda: 1).__code__), {}), "control falls into the other code"),
    ],
)
def test_mistakes_are_refused_where_they_are_made(
    new_builder: NewBuilder, emit: Callable[[CodeBuilder], object], message: str
) -> None:
    with pytest.raises(AssemblyError, match=message):
        emit(new_builder("x"))


@pytest.mark.parametrize(
    ("emit", "message"),
    [
        (lambda b: b.load_fast("x"), "control runs past the end"),
        (lambda b: b.jump(b.new_label("nowhere")), "nowhere> is used but was never placed"),
        (lambda b: b.try_begin(b.new_label()), "begun and not ended"),
    ],
)
def test_mistakes_are_refused_at_the_end(
    new_builder: NewBuilder, emit: Callable[[CodeBuilder], object], message: str
) -> None:
    builder = new_builder("x")
    emit(builder)
    with pytest.raises(AssemblyError, match=message):
        builder.assemble()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"freevars": ("x",)}, "more than once"),
        ({"freevars": ("a", "a")}, "more than once"),
        ({"cellvars": ("a",), "freevars": ("a",)}, "more than once"),
        ({"cell_arguments": ("y",)}, "not among the arguments"),
        ({"flags": 0x07}, "plain positional"),
    ],
)
def test_impossible_headers_are_refused(new_builder: NewBuilder, options: dict[str, Any], message: str) -> None:
    with pytest.raises(AssemblyError, match=message):
        new_builder("x", **options)


def test_two_ways_to_a_label_must_agree_on_the_stack(new_builder: NewBuilder) -> None:
    builder = new_builder("x")
    both = builder.new_label("both")
    builder.load_fast("x")
    builder.pop_jump_if_true(both)
    builder.load_fast("x")
    with pytest.raises(AssemblyError, match="stacks that differ: 0 and 1 values"):
        builder.label(both)
