"""`super()` objects."""

from __future__ import annotations

from typing import Any

from graphwright.trust import is_trusted_class
from graphwright.variables.base import Emitter, Tx, VariableTracker
from graphwright.variables.object_model import ClassAttribute, bind_class_attribute, find_in_mro, mro_after


class SuperVariable(VariableTracker):
    """`super(start, owner)`; `owner` is an instance, or a class in class methods and `__new__`."""

    def __init__(self, start: VariableTracker, owner: VariableTracker) -> None:
        self.start = start
        self.owner = owner

    def python_type(self) -> type:
        return super

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        start: Any = self.start.realize().as_python_constant()
        owner = self.owner.realize()
        of_class = issubclass(owner.python_type(), type)
        cls: Any = owner.as_python_constant() if of_class else owner.python_type()
        if of_class and not issubclass(cls, start):
            cls, of_class = owner.python_type(), False
        rest = mro_after(cls, start)
        found = find_in_mro(rest, name)
        for base in rest:
            pending = tx.capture.effects.own_class_attribute(base, name)
            if pending is not None:
                return bind_class_attribute(tx, pending, None if of_class else owner, tx.wrap(cls))
        if found is None:
            tx.raise_(AttributeError, f"'super' object has no attribute '{name}'")
        raw, holder = found
        source = None
        if not is_trusted_class(holder):
            source = tx.capture.roots.object(holder).mro_attr(name)
            tx.capture.guards.touch(source)
            if type(raw).__name__ == "function":
                tx.capture.guards.add(source, "id", raw)
        return bind_class_attribute(tx, ClassAttribute(raw, holder, source), None if of_class else owner, tx.wrap(cls))

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(super)
        emit(self.start)
        emit(self.owner)
        emit.op("call", 2)
