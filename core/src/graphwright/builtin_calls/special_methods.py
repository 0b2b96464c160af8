"""Special methods of variables: looked up on the type, called with Python's rules for NotImplemented."""

from __future__ import annotations

import collections
import types
from typing import Any

import torch

import graphwright.graph_breaks as gb
from graphwright.trust import is_trusted_class
from graphwright.variables.base import Tx, VariableTracker
from graphwright.variables.comparison import same_object
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.method_table import is_not_implemented, type_has
from graphwright.variables.object_model import class_attribute, find_in_mro
from graphwright.variables.sequence import as_tuple
from graphwright.variables.set import as_set

SEQUENCE_TYPES = (list, tuple, str, bytes, bytearray, range, collections.deque)
_VALUE_TYPES = (int, float, complex, str, bytes)


def find_special(tx: Tx, cls: type, name: str) -> tuple[Any, type] | None:
    """What a class or its bases define under a name, and which of them does; guarded where the class may change."""
    if not is_trusted_class(cls):
        found = class_attribute(tx, cls, name)
        if found is None:
            return None
        return (found.raw if found.pending is None else found.pending), found.owner
    return find_in_mro(cls.__mro__, name)


def defines(tx: Tx, cls: type, name: str) -> bool:
    """Whether a type has a special method other than `object`'s."""
    found = find_special(tx, cls, name)
    return found is not None and found[1] is not object and found[0] is not None


def overrides(tx: Tx, cls: type, base: type, name: str) -> bool:
    """Whether a subclass gives a special method of its own."""
    found, inherited = find_special(tx, cls, name), find_special(tx, base, name)
    return found is not None and (inherited is None or found[0] is not inherited[0])


def is_sequence_slot(tx: Tx, cls: type, name: str) -> bool:
    """Whether a type's `__add__` or `__mul__` is that of a builtin sequence, which Python asks last."""
    found = find_special(tx, cls, name)
    return found is not None and found[1] in SEQUENCE_TYPES and type(found[0]) is types.WrapperDescriptorType


def lift(tx: Tx, vt: VariableTracker) -> VariableTracker:
    """A constant tuple or frozen set as the variable of a container."""
    vt = vt.realize()
    if isinstance(vt, ConstantVariable):
        if isinstance(vt.value, tuple):
            return as_tuple(tx, vt) or vt
        if isinstance(vt.value, frozenset):
            return as_set(tx, vt) or vt
    return vt


def call_special(tx: Tx, vt: VariableTracker, name: str, *args: VariableTracker) -> VariableTracker | None:
    """`type(vt).name(vt, *args)`, or None where the type lacks it or it gives NotImplemented."""
    vt = vt.realize()
    cls = vt.python_type()
    if not defines(tx, cls, name):
        return None
    if isinstance(vt, ConstantVariable):
        result = _constant_special(tx, vt, name, args)
    elif issubclass(cls, (types.FunctionType, types.ModuleType)):
        return None
    else:
        result = vt.call_method(tx, name, args, {}).realize()
    return None if result is None or is_not_implemented(result) else result


def _constant_special(
    tx: Tx, vt: ConstantVariable, name: str, args: tuple[VariableTracker, ...]
) -> VariableTracker | None:
    if all(a.is_python_constant() for a in args):
        return vt.call_method(tx, name, args, {}).realize()
    found = find_special(tx, type(vt.value), name)
    if found is not None and isinstance(found[0], types.FunctionType):
        return tx.call(tx.wrap(found[0]), [vt, *args]).realize()
    if any(issubclass(a.python_type(), _VALUE_TYPES) for a in args):
        tx.graph_break(gb.UNSUPPORTED_VALUE, f"{vt.type_name()}.{name} with a {args[0].type_name()} not known now")
    return None


# ------------------------------------------------------------------ rich comparison

SWAPPED = {
    "__lt__": "__gt__",
    "__gt__": "__lt__",
    "__le__": "__ge__",
    "__ge__": "__le__",
    "__eq__": "__eq__",
    "__ne__": "__ne__",
}
_METHOD_TYPES = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)


def compare_special(tx: Tx, a: VariableTracker, name: str, b: VariableTracker) -> VariableTracker | None:
    """One side's view of a comparison, or None for NotImplemented."""
    cls = a.python_type()
    if issubclass(cls, _METHOD_TYPES) and name in ("__eq__", "__ne__") and issubclass(b.python_type(), cls):
        return tx.wrap((a.hash_key(tx) == b.hash_key(tx)) is (name == "__eq__"))
    if defines(tx, cls, name):
        return call_special(tx, a, name, b)
    if name == "__eq__":
        return tx.wrap(True) if same_object(tx, a, b) else None
    if name == "__ne__":
        equal = compare_special(tx, a, "__eq__", b)
        return None if equal is None else tx.wrap(not equal.realize().truth(tx))
    return None


def rich_compare(tx: Tx, name: str, symbol: str, a: VariableTracker, b: VariableTracker) -> VariableTracker:
    """`a < b` and its kin. Source: `do_richcompare` in CPython's `Objects/object.c`."""
    a, b = lift(tx, a), lift(tx, b)
    first, second = a.python_type(), b.python_type()
    swapped = SWAPPED[name]
    reflected_first = first is not second and issubclass(second, first)
    reflected_first = reflected_first and find_special(tx, second, swapped) is not None
    if reflected_first:
        result = compare_special(tx, b, swapped, a)
        if result is not None:
            return result
    result = compare_special(tx, a, name, b)
    if result is None and not reflected_first:
        result = compare_special(tx, b, swapped, a)
    if result is not None:
        return result
    if name in ("__eq__", "__ne__"):
        return tx.wrap(same_object(tx, a, b) is (name == "__eq__"))
    tx.raise_(TypeError, f"'{symbol}' not supported between instances of '{a.type_name()}' and '{b.type_name()}'")


# ------------------------------------------------------------------ binary operators


def binary_special(
    tx: Tx, forward: str, reflected: str, a: VariableTracker, b: VariableTracker
) -> VariableTracker | None:
    """`a + b` and its kin without the in-place forms. Source: `binary_op1` in CPython's `Objects/abstract.c`."""
    a, b = lift(tx, a), lift(tx, b)
    first, second = a.python_type(), b.python_type()
    use_first = not is_sequence_slot(tx, first, forward)
    use_second = first is not second and not is_sequence_slot(tx, second, reflected)
    if use_second and issubclass(second, first) and overrides(tx, second, first, reflected):
        result = call_special(tx, b, reflected, a)
        if result is not None:
            return result
        use_second = False
    if use_first:
        result = call_special(tx, a, forward, b)
        if result is not None:
            return result
    if use_second:
        result = call_special(tx, b, reflected, a)
        if result is not None:
            return result
    return _sequence_special(tx, forward, a, b)


def _sequence_special(tx: Tx, forward: str, a: VariableTracker, b: VariableTracker) -> VariableTracker | None:
    """Concatenation and repetition, which come after all numbers have declined."""
    if forward == "__add__" and is_sequence_slot(tx, a.python_type(), "__add__"):
        return _on_sequence(tx, a, "__add__", b)
    if forward == "__mul__":
        for sequence, count in ((a, b), (b, a)):
            if is_sequence_slot(tx, sequence.python_type(), "__mul__"):
                return _repeat(tx, sequence, count)
    return None


def _repeat(tx: Tx, sequence: VariableTracker, count: VariableTracker) -> VariableTracker | None:
    if not type_has(count.python_type(), "__index__"):
        tx.raise_(TypeError, f"can't multiply sequence by non-int of type '{count.type_name()}'")
    return _on_sequence(tx, sequence, "__mul__", count)


def _on_sequence(tx: Tx, sequence: VariableTracker, name: str, other: VariableTracker) -> VariableTracker | None:
    if not isinstance(sequence, ConstantVariable):
        return sequence.call_method(tx, name, [other], {}).realize()
    if name == "__mul__":
        number = other.call_method(tx, "__index__", [], {}).realize()
        if number.is_python_constant():
            return sequence.call_method(tx, name, [number], {}).realize()
        tx.graph_break(gb.UNSUPPORTED_VALUE, f"{sequence.type_name()} repeated a number of times not known now")
    if issubclass(other.python_type(), type(sequence.value)):
        tx.graph_break(gb.UNSUPPORTED_VALUE, f"text of a {other.type_name()} not known now")
    kind = sequence.type_name()
    if isinstance(sequence.value, str):
        tx.raise_(TypeError, f'can only concatenate str (not "{other.type_name()}") to str')
    tx.raise_(TypeError, f"can't concat {other.type_name()} to {kind}")


def is_tensor(vt: VariableTracker) -> bool:
    """Whether a variable is a tensor."""
    return issubclass(vt.python_type(), torch.Tensor)
