"""Values that only stand for the identity of another: `id(x)`, a weak reference made inside."""

from __future__ import annotations

import weakref
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker


class IdentityNumberVariable(VariableTracker):
    """`id(target)`: a key in dicts and sets; as a number it is known only at run time."""

    def __init__(self, target: VariableTracker) -> None:
        self.target = target

    def python_type(self) -> type:
        return int

    def hash_key(self, tx: Tx) -> Any:
        return (IdentityNumberVariable, self.target)

    def truth(self, tx: Tx) -> bool:
        return True

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        other = args[0].realize() if args else None
        if name in ("__eq__", "__ne__") and isinstance(other, IdentityNumberVariable):
            return tx.wrap((other.target is self.target) is (name == "__eq__"))
        tx.graph_break(gb.UNKNOWN_COMPARISON, f"id() of an object used as a number, in {name}")

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(id)
        emit(self.target)
        emit.op("call", 1)


class NewWeakReferenceVariable(VariableTracker):
    """A `weakref.ref` that the traced program made."""

    def __init__(self, target: VariableTracker) -> None:
        self.target = target
        target.has_weak_reference = True

    def python_type(self) -> type:
        return weakref.ref

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        if not tx.holds(self.target):
            tx.graph_break(gb.UNSUPPORTED_VALUE, "a weak reference to what may be gone")
        return self.target

    def hash_key(self, tx: Tx) -> Any:
        return (NewWeakReferenceVariable, self.target.realize().hash_key(tx))

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(weakref.ref)
        emit(self.target)
        emit.op("call", 1)
