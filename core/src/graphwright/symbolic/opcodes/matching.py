"""`match` statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphwright.bytecode.versions import PY312
from graphwright.exc import ObservedException
from graphwright.symbolic.dispatch import opcode
from graphwright.variables.base import VariableTracker
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.sequence import TupleVariable

if TYPE_CHECKING:
    from graphwright.bytecode import Instruction
    from graphwright.symbolic.translator import Translator

# Flags of `type.__flags__`, from CPython's Include/object.h.
_SEQUENCE: Final = 1 << 5
_MAPPING: Final = 1 << 6
_MATCH_SELF: Final = 1 << 22


class _Missing:
    """The type of what a mapping is asked to give for a missing key."""


@opcode("MATCH_SEQUENCE")
def match_sequence(tx: Translator, inst: Instruction) -> None:
    """Push whether the top counts as a sequence.

    Stack: (subject -- subject, bool)
    """
    tx.push(ConstantVariable(bool(tx.peek(1).python_type().__flags__ & _SEQUENCE)))


@opcode("MATCH_MAPPING")
def match_mapping(tx: Translator, inst: Instruction) -> None:
    """Push whether the top counts as a mapping.

    Stack: (subject -- subject, bool)
    """
    tx.push(ConstantVariable(bool(tx.peek(1).python_type().__flags__ & _MAPPING)))


@opcode("MATCH_KEYS")
def match_keys(tx: Translator, inst: Instruction) -> None:
    """Push the values of the keys, or None if one is missing.

    Stack: (subject, keys -- subject, keys, tuple or None)
    """
    keys = [key.realize() for key in tx.peek(1).unpack(tx)]
    subject = tx.peek(2)
    seen = set()
    values: list[VariableTracker] = []
    missing = ConstantVariable(_Missing())
    get = subject.getattr(tx, "get") if keys else None
    for key in keys:
        if key.hash_key(tx) in seen:
            tx.raise_(ValueError, f"mapping pattern checks duplicate key ({key.as_python_constant()!r})")
        seen.add(key.hash_key(tx))
        assert get is not None
        value = tx.call(get, [key, missing])
        found = value.realize()
        if found.is_python_constant() and found.as_python_constant() is missing.value:
            tx.push(ConstantVariable(None))
            return
        values.append(value)
    tx.push(TupleVariable(values))


@opcode("MATCH_CLASS")
def match_class(tx: Translator, inst: Instruction) -> None:
    """Push the attributes that a class pattern binds, or None if the subject does not match.

    The argument is the number of positional sub-patterns.
    Stack: (subject, class, keyword names -- tuple or None)
    """
    assert inst.arg is not None
    names = [name.realize().as_python_constant() for name in tx.pop().unpack(tx)]
    cls, subject = tx.pop(), tx.pop()
    if not issubclass(cls.python_type(), type):
        tx.raise_(TypeError, f"called match pattern must be a {'class' if PY312 else 'type'}")
    if not tx.call(tx.wrap(isinstance), [subject, cls]).realize().truth(tx):
        tx.push(ConstantVariable(None))
        return
    values = _class_values(tx, subject, cls, inst.arg, names)
    tx.push(ConstantVariable(None) if values is None else TupleVariable(values))


def _class_values(
    tx: Translator, subject: VariableTracker, cls: VariableTracker, positional: int, names: list[str]
) -> list[VariableTracker] | None:
    """The values of the sub-patterns, or None where the subject lacks an attribute.

    Source: `match_class` in CPython's Python/ceval.c.
    """
    class_name = getattr(cls.as_python_constant(), "__name__", "?")
    by_position, itself = _positional_names(tx, cls, class_name, positional)
    values: list[VariableTracker] = [subject] if itself else []
    seen: set[str] = set()
    for name in (*by_position, *names):
        if name in seen:
            tx.raise_(TypeError, f"{class_name}() got multiple sub-patterns for attribute {name!r}")
        seen.add(name)
        value = _attribute(tx, subject, name)
        if value is None:
            return None
        values.append(value)
    return values


def _positional_names(tx: Translator, cls: VariableTracker, class_name: str, positional: int) -> tuple[list[str], bool]:
    """The attributes that positional sub-patterns stand for; whether the only one stands for the subject itself."""
    if not positional:
        return [], False
    match_args = _attribute(tx, cls, "__match_args__")
    if match_args is None:
        itself = bool(cls.as_python_constant().__flags__ & _MATCH_SELF)
        _check_count(tx, class_name, positional, 1 if itself else 0)
        return [], itself
    match_args = match_args.realize()
    if match_args.python_type() is not tuple:
        message = f"{class_name}.__match_args__ must be a tuple (got {match_args.type_name()})"
        tx.raise_(TypeError, message)
    items = [item.realize() for item in match_args.unpack(tx)]
    _check_count(tx, class_name, positional, len(items))
    for item in items[:positional]:
        if item.python_type() is not str:
            tx.raise_(TypeError, f"__match_args__ elements must be strings (got {item.type_name()})")
    return [item.as_python_constant() for item in items[:positional]], False


def _check_count(tx: Translator, class_name: str, given: int, allowed: int) -> None:
    if given > allowed:
        plural = "" if allowed == 1 else "s"
        message = f"{class_name}() accepts {allowed} positional sub-pattern{plural} ({given} given)"
        tx.raise_(TypeError, message)


def _attribute(tx: Translator, owner: VariableTracker, name: str) -> VariableTracker | None:
    """An attribute, or None where there is none."""
    try:
        return owner.getattr(tx, name)
    except ObservedException as signal:
        if issubclass(signal.value.python_type(), AttributeError):
            return None
        raise
