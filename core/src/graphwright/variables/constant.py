"""Immutable values known at capture time: numbers, strings, dtypes, devices, enum members."""

from __future__ import annotations

import enum
from typing import Any

import torch

import graphwright.graph_breaks as gb
from graphwright.exc import ObservedException
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker
from graphwright.variables.container import try_snapshot
from graphwright.variables.iterator import SequenceIterator

LITERAL_TYPES: frozenset[type] = frozenset(
    {int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented)}
)
"""Types whose values are compared by value in guards."""
TORCH_CONSTANT_TYPES: frozenset[type] = frozenset(
    {torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo, torch.iinfo, torch.qscheme}
)
_PLAIN_CONTAINERS = (list, tuple, dict, set, frozenset)
"""Types of which a method written in C reads the items and does nothing else."""


def is_literal(value: Any) -> bool:
    """Whether a value is a constant by its type alone, containers of constants included."""
    kind = type(value)
    if kind in LITERAL_TYPES or kind in TORCH_CONSTANT_TYPES:
        return True
    if kind in (tuple, frozenset, torch.Size):
        return all(is_literal(v) for v in value)
    return isinstance(value, enum.Enum)


class ConstantVariable(VariableTracker):
    """An immutable value known now."""

    def __init__(self, value: Any, source: Any = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def is_python_constant(self) -> bool:
        return True

    def as_python_constant(self) -> Any:
        return self.value

    def truth(self, tx: Tx) -> bool:
        return bool(self.value)

    def length(self, tx: Tx) -> VariableTracker:
        return constant_call(tx, len, [self.value])

    def hash_key(self, tx: Tx) -> Any:
        return self.value

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        try:
            found = getattr(self.value, name)
        except AttributeError as error:
            tx.raise_(AttributeError, *error.args)
        if isinstance(self.value, enum.Enum) and self.source is not None:
            return tx.wrap(found, self.source.attr(name) if not is_literal(found) and not callable(found) else None)
        if callable(found) and getattr(found, "__self__", None) is self.value:
            return ConstantMethodVariable(self, name)
        return tx.wrap(found)

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in ("__enter__", "__exit__"):  # a device as a context: it sets what tensors are made on
            tx.graph_break(gb.CONTEXT_MANAGER, f"`with {self.value!r}`")
        values = [a.realize() for a in args]
        named = {k: v.realize() for k, v in kwargs.items()}
        if name == "join" and isinstance(self.value, (str, bytes)) and len(values) == 1 and not named:
            parts = [p.realize() for p in values[0].unpack(tx)]
            if all(p.is_python_constant() for p in parts):
                return constant_call(tx, self.value.join, [[p.as_python_constant() for p in parts]])
        if name == "format" and isinstance(self.value, str):
            return tx.call(tx.wrap(format_with), [self, *values], named)
        if all(v.is_python_constant() for v in (*values, *named.values())) and hasattr(self.value, name):
            arguments = [v.as_python_constant() for v in values]
            return constant_call(
                tx, getattr(self.value, name), arguments, {k: v.as_python_constant() for k, v in named.items()}
            )
        if not hasattr(self.value, name):
            return super().call_method(tx, name, args, kwargs)
        others = [*values, *named.values()]
        simple = all(v.is_python_constant() or v.python_type() in _PLAIN_CONTAINERS for v in others)
        snapshots = try_snapshot(tx, others) if simple else None
        if snapshots is None:
            tx.graph_break(gb.UNKNOWN_CALL, f"{self.type_name()}.{name} with arguments that are not constants")
        by_name = dict(zip(named, snapshots[len(values) :], strict=True))
        return constant_call(tx, getattr(self.value, name), snapshots[: len(values)], by_name)

    def iterate(self, tx: Tx) -> VariableTracker:
        return SequenceIterator(self.unpack(tx))

    def unpack(self, tx: Tx) -> list[VariableTracker]:
        try:
            return [tx.wrap(v) for v in self.value]
        except TypeError as error:
            tx.raise_(TypeError, *error.args)

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(self.value)

    def __repr__(self) -> str:
        return f"<constant {self.value!r}>"


def format_with(template: str, /, *args: Any, **kwargs: Any) -> str:
    """Stand-in for `str.format` that sees its arguments as variables; handled by the table of builtins."""
    return template.format(*args, **kwargs)


class ConstantMethodVariable(VariableTracker):
    """A bound C method of an immutable value, such as ``", ".join``."""

    def __init__(self, owner: ConstantVariable, name: str) -> None:
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        return type(getattr(self.owner.value, self.name))

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.owner.call_method(tx, self.name, args, kwargs)

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        return tx.wrap(getattr(getattr(self.owner.value, self.name), name))

    def hash_key(self, tx: Tx) -> Any:
        return (ConstantMethodVariable, self.owner.value, self.name)

    def reconstruct(self, emit: Emitter) -> None:
        emit(self.owner)
        emit.op("load_attr", self.name)


def constant_call(tx: Tx, fn: Any, args: list[Any], kwargs: dict[str, Any] | None = None) -> VariableTracker:
    """Call a pure function on constants now; what it raises is raised in the traced program."""
    try:
        result = fn(*args, **(kwargs or {}))
    except ObservedException:
        raise
    except Exception as error:  # noqa: BLE001  whatever a pure function raises, eager raises too
        tx.raise_(type(error), *error.args)
    return tx.wrap(result)
