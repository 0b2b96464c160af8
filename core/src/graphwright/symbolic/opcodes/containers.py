"""Building, filling and unpacking containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphwright.bytecode.versions import NULL_BELOW_CALLABLE
from graphwright.symbolic.dispatch import opcode
from graphwright.symbolic.opcodes.calls import callable_name
from graphwright.variables.base import VariableTracker, try_next
from graphwright.variables.dict import DictVariable
from graphwright.variables.list import ListVariable
from graphwright.variables.sequence import TupleVariable

if TYPE_CHECKING:
    from graphwright.bytecode import Instruction
    from graphwright.symbolic.translator import Translator


def _count(inst: Instruction) -> int:
    assert inst.arg is not None
    return inst.arg


# ------------------------------------------------------------------ building


@opcode("BUILD_TUPLE")
def build_tuple(tx: Translator, inst: Instruction) -> None:
    """Make a tuple.

    Stack: (item, ... -- tuple)
    """
    tx.push(TupleVariable(tx.popn(_count(inst))))


@opcode("BUILD_LIST")
def build_list(tx: Translator, inst: Instruction) -> None:
    """Make a list.

    Stack: (item, ... -- list)
    """
    tx.push(ListVariable(tx.popn(_count(inst))))


@opcode("BUILD_SET")
def build_set(tx: Translator, inst: Instruction) -> None:
    """Make a set.

    Stack: (item, ... -- set)
    """
    items = ListVariable(tx.popn(_count(inst)))
    tx.push(tx.call(tx.wrap(set), [items]))


@opcode("BUILD_MAP")
def build_map(tx: Translator, inst: Instruction) -> None:
    """Make a dict.

    Stack: (key, value, ... -- dict)
    """
    flat = tx.popn(2 * _count(inst))
    mapping = DictVariable.new()
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        mapping.store(tx, key.realize(), value)
    tx.push(mapping)


@opcode("BUILD_CONST_KEY_MAP")
def build_const_key_map(tx: Translator, inst: Instruction) -> None:
    """Make a dict whose keys are constants.

    Stack: (value, ..., keys -- dict)
    """
    keys = tx.pop().unpack(tx)
    mapping = DictVariable.new()
    for key, value in zip(keys, tx.popn(_count(inst)), strict=True):
        mapping.store(tx, key.realize(), value)
    tx.push(mapping)


@opcode("BUILD_SLICE")
def build_slice(tx: Translator, inst: Instruction) -> None:
    """Make a slice of two or three parts.

    Stack: (start, stop, step? -- slice)
    """
    parts = [part.realize() for part in tx.popn(_count(inst))]
    tx.push(tx.call(tx.wrap(slice), parts))


@opcode("LIST_TO_TUPLE", until=(3, 12))
def list_to_tuple(tx: Translator, inst: Instruction) -> None:
    """Turn a list into a tuple.

    Stack: (list -- tuple)
    """
    tx.push(TupleVariable(tx.pop().unpack(tx)))


# ------------------------------------------------------------------ filling


@opcode("LIST_APPEND")
def list_append(tx: Translator, inst: Instruction) -> None:
    """Append to the list at a depth; comprehensions do.

    Stack: (list, ..., item -- list, ...)
    """
    item = tx.pop_raw()
    tx.peek(_count(inst)).call_method(tx, "append", [item], {})


@opcode("SET_ADD")
def set_add(tx: Translator, inst: Instruction) -> None:
    """Add to the set at a depth.

    Stack: (set, ..., item -- set, ...)
    """
    item = tx.pop_raw()
    tx.peek(_count(inst)).call_method(tx, "add", [item], {})


@opcode("MAP_ADD")
def map_add(tx: Translator, inst: Instruction) -> None:
    """Set an item of the dict at a depth.

    Stack: (dict, ..., key, value -- dict, ...)
    """
    key, value = tx.popn(2)
    mapping = tx.peek(_count(inst))
    assert isinstance(mapping, DictVariable)
    mapping.store(tx, key.realize(), value)


@opcode("LIST_EXTEND")
def list_extend(tx: Translator, inst: Instruction) -> None:
    """Extend the list at a depth: `*` in a display or call.

    Stack: (list, ..., iterable -- list, ...)
    """
    values = tx.pop()
    if not is_iterable(values):
        tx.raise_(TypeError, f"Value after * must be an iterable, not {values.type_name()}")
    tx.peek(_count(inst)).call_method(tx, "extend", [values], {})


@opcode("SET_UPDATE")
def set_update(tx: Translator, inst: Instruction) -> None:
    """Add all items to the set at a depth.

    Stack: (set, ..., iterable -- set, ...)
    """
    values = tx.pop()
    tx.peek(_count(inst)).call_method(tx, "update", [values], {})


@opcode("DICT_UPDATE")
def dict_update(tx: Translator, inst: Instruction) -> None:
    """Update the dict at a depth: `**` in a display.

    Stack: (dict, ..., mapping -- dict, ...)
    """
    values = tx.pop()
    if not is_mapping(values):
        tx.raise_(TypeError, f"'{values.type_name()}' object is not a mapping")
    tx.peek(_count(inst)).call_method(tx, "update", [values], {})


@opcode("DICT_MERGE")
def dict_merge(tx: Translator, inst: Instruction) -> None:
    """Update the dict of keyword arguments at a depth, refusing names given twice.

    Stack: (callable, NULL?, args, dict, ..., mapping -- callable, NULL?, args, dict, ...)
    """
    values = tx.pop()
    named = tx.peek(_count(inst))
    callee = tx.stack[-_count(inst) - (2 if NULL_BELOW_CALLABLE else 3)]
    assert isinstance(named, DictVariable)
    if not is_mapping(values):
        name = callable_name(callee)
        tx.raise_(TypeError, f"{name} argument after ** must be a mapping, not {values.type_name()}")
    for key in values.call_method(tx, "keys", [], {}).realize().unpack(tx):
        key = key.realize()
        if not issubclass(key.python_type(), str):
            tx.raise_(TypeError, "keywords must be strings")
        if named.lookup(tx, key) is not None:
            shown = key.as_python_constant()
            tx.raise_(TypeError, f"{callable_name(callee)} got multiple values for keyword argument '{shown}'")
        named.store(tx, key, values.call_method(tx, "__getitem__", [key], {}))


def is_iterable(value: VariableTracker) -> bool:
    """Whether `iter` takes a value of this type."""
    kind = value.python_type()
    return getattr(kind, "__iter__", None) is not None or hasattr(kind, "__getitem__")


def is_mapping(value: VariableTracker) -> bool:
    """Whether `dict.update` takes the value for a mapping: it has `keys`."""
    return hasattr(value.python_type(), "keys")


# ------------------------------------------------------------------ unpacking


def _start_unpacking(tx: Translator) -> VariableTracker:
    values = tx.pop()
    if not is_iterable(values) and not issubclass(values.python_type(), type):
        tx.raise_(TypeError, f"cannot unpack non-iterable {values.type_name()} object")
    return values.iterate(tx)


def _take(tx: Translator, iterator: VariableTracker, count: int) -> list[VariableTracker]:
    """The next items, as many as there are up to `count`."""
    items: list[VariableTracker] = []
    while len(items) < count and (item := try_next(tx, iterator)) is not None:
        items.append(item)
    return items


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(tx: Translator, inst: Instruction) -> None:
    """Unpack exactly `arg` items, the first on top.

    Stack: (iterable -- item n, ..., item 1)
    """
    count = _count(inst)
    iterator = _start_unpacking(tx)
    items = _take(tx, iterator, count)
    if len(items) < count:
        tx.raise_(ValueError, f"not enough values to unpack (expected {count}, got {len(items)})")
    if try_next(tx, iterator) is not None:
        tx.raise_(ValueError, f"too many values to unpack (expected {count})")
    tx.stack.extend(reversed(items))


@opcode("UNPACK_EX")
def unpack_ex(tx: Translator, inst: Instruction) -> None:
    """Unpack with a starred target: low byte of the argument items before it, the rest of the argument after it.

    Stack: (iterable -- after n, ..., after 1, list, before n, ..., before 1)
    """
    before, after = _count(inst) & 0xFF, _count(inst) >> 8
    iterator = _start_unpacking(tx)
    items = _take(tx, iterator, before)
    if len(items) == before:
        while (item := try_next(tx, iterator)) is not None:
            items.append(item)
    if len(items) < before + after:
        at_least = f"at least {before + after}" if after or len(items) >= before else f"at least {before}"
        tx.raise_(ValueError, f"not enough values to unpack (expected {at_least}, got {len(items)})")
    middle_end = len(items) - after
    parts = [*items[:before], ListVariable(items[before:middle_end]), *items[middle_end:]]
    tx.stack.extend(reversed(parts))


@opcode("GET_LEN")
def get_len(tx: Translator, inst: Instruction) -> None:
    """Push the length of the top.

    Stack: (value -- value, length)
    """
    tx.push(tx.peek(1).length(tx))
