"""The stack during emission, and the walk that measures it."""

from __future__ import annotations

from types import CodeType

import pytest

from graphwright.bytecode import AssemblyError, Label, Region
from graphwright.bytecode.operands import VariableSlots, opcode_of, written_operand
from graphwright.bytecode.stack import Item, Operation, StackTracker, measure_stack, stack_effect


def operation(opname: str, value: object = None, region: Region | None = None) -> Operation:
    operand = written_operand(opname, value, VariableSlots((), ()))
    return Operation(opname, opcode_of(opname), operand.argument, operand.effect, None, region)


def measure(*items: Item) -> tuple[int, list[int | None]]:
    result = measure_stack(items, is_generator=False)
    return result.size, result.before


def test_straight_line_is_measured() -> None:
    size, before = measure(
        operation("LOAD_CONST", 1), operation("LOAD_CONST", 2), operation("BUILD_TUPLE", 2), operation("RETURN_VALUE")
    )
    assert size == 2
    assert before == [0, 1, 2, 1]


def test_unreachable_operations_have_no_depth() -> None:
    _, before = measure(operation("LOAD_CONST", 1), operation("RETURN_VALUE"), operation("POP_TOP"))
    assert before == [0, 1, None]


def test_handlers_start_at_the_depth_of_their_region() -> None:
    handler = Label("handler")
    region = Region(handler, True, None)
    size, before = measure(
        operation("LOAD_CONST", 1),
        operation("LOAD_CONST", 2, region),
        operation("LOAD_CONST", 3, region),
        operation("RETURN_VALUE"),
        handler,
        operation("RERAISE", 1),
    )
    assert before[4] == 3  # one value kept, the offset, the exception
    assert size == 3


def test_region_deeper_than_the_stack_is_refused() -> None:
    handler = Label("handler")
    with pytest.raises(AssemblyError, match="has 0 values on the stack, its handler expects 2"):
        measure(operation("LOAD_CONST", 1, Region(handler, False, 2)), operation("RETURN_VALUE"), handler)


def test_underflow_is_refused() -> None:
    with pytest.raises(AssemblyError, match="takes 1 values from a stack of 0"):
        measure(operation("POP_TOP"), operation("RETURN_VALUE"))
    with pytest.raises(AssemblyError, match="takes 1 values from a stack of 0"):
        measure(operation("RETURN_VALUE"))


@pytest.mark.parametrize("opname", ["BINARY_OP", "BINARY_SUBSCR", "SWAP", "UNPACK_SEQUENCE"])
def test_underflow_hidden_by_a_result_is_refused(opname: str) -> None:
    argument = None if opname == "BINARY_SUBSCR" else 2
    have = 0 if opname == "UNPACK_SEQUENCE" else 1
    items = [*[operation("LOAD_CONST", 1)] * have, operation(opname, argument), operation("RETURN_VALUE")]
    with pytest.raises(AssemblyError, match=f"takes {have + 1} values from a stack of {have}"):
        measure(*items)


def test_two_depths_at_one_place_are_refused() -> None:
    top = Label("top")
    with pytest.raises(AssemblyError, match="is reached with stack depths 0 and 1"):
        measure(top, operation("LOAD_CONST", 1), operation("JUMP_BACKWARD", top))


def test_null_flag_follows_jumps() -> None:
    tracker = StackTracker()
    tracker.apply(operation("PUSH_NULL"), 0)
    tracker.known_slots("test")[-1].is_null = True
    label = Label("there")
    tracker.jump_to(label, 0)
    tracker.slots = None
    tracker.arrive(label, None)
    assert [slot.is_null for slot in tracker.known_slots("test")] == [True]


def test_consuming_operation_leaves_flags_below_alone() -> None:
    tracker = StackTracker()
    tracker.apply(operation("PUSH_NULL"), 0)
    tracker.known_slots("test")[-1].is_null = True
    tracker.apply(operation("LOAD_CONST", 1), 1)
    tracker.apply(operation("POP_TOP"), 2)
    assert tracker.known_slots("test")[-1].is_null


def test_values_out_of_one_operation_can_not_be_parted() -> None:
    tracker = StackTracker()
    tracker.apply(operation("LOAD_CONST", (1, 2)), 0)
    tracker.apply(operation("UNPACK_SEQUENCE", 2), 1)
    assert [slot.start for slot in tracker.known_slots("test")] == [0, None]


def test_stack_effect_is_that_of_dis() -> None:
    assert stack_effect(opcode_of("BUILD_TUPLE"), 3, False) == -2
    assert stack_effect(opcode_of("POP_TOP"), 0, False) == -1


def test_measured_size_is_no_larger_than_the_compilers(library_code: list[CodeType], rebuilt: object) -> None:
    for code in library_code:
        new = rebuilt(code)  # type: ignore[operator]
        assert new.co_stacksize <= max(code.co_stacksize, 1), code
