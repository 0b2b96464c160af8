"""CPython's data model, written once: attribute lookup through classes and descriptors, special methods.

Source: the Python reference, "Data model" (3.3.2 to 3.3.10), and `Objects/typeobject.c` and `Objects/object.c`
(`_PyType_Lookup`, `PyObject_GenericGetAttr`, `super_getattro`).
"""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.sources import Source
from graphwright.trust import is_trusted_class
from graphwright.variables.base import Args, Kwargs, Tx, VariableTracker
from graphwright.variables.function import BoundMethodVariable

C_DESCRIPTORS = (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType)
_LRU_CACHE_WRAPPER = type(functools.lru_cache(lambda: None))
SLOT_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)


@dataclass(frozen=True, slots=True)
class ClassAttribute:
    """What a class or its bases define under a name: the raw object, its owner, and how to read it again."""

    raw: Any
    owner: type
    source: Source | None
    pending: VariableTracker | None = None
    """The value that the traced program itself gave the attribute."""


def find_in_mro(mro: tuple[type, ...], name: str) -> tuple[Any, type] | None:
    """The raw attribute and the class that defines it."""
    for owner in mro:
        namespace = owner.__dict__
        if name in namespace:
            return namespace[name], owner
    return None


def class_attribute(tx: Tx, cls: type, name: str) -> ClassAttribute | None:
    """`_PyType_Lookup(cls, name)`; what it gives, or its absence, is guarded unless the class is trusted."""
    pending = tx.capture.effects.class_attribute(cls, name)
    if pending is not None:
        return pending
    found = find_in_mro(cls.__mro__, name)
    source = None if is_trusted_class(cls) else tx.capture.roots.object(cls).mro_attr(name)
    if found is None:
        if source is not None:
            tx.capture.guards.add(source, "absent")
        return None
    raw, owner = found
    if source is not None:
        _guard_raw(tx, source, raw)
    return ClassAttribute(raw, owner, source)


def _guard_raw(tx: Tx, source: Source, raw: Any) -> None:
    """Hold a class attribute to what it is, by weak references where code is reached through it."""
    guards = tx.capture.guards
    kind = type(raw)
    if kind is types.FunctionType:
        guards.add(source, "id", raw)
        guards.add(source.attr("__code__"), "id", raw.__code__)
    elif kind is property:
        guards.add(source, "type", property)
        for part in ("fget", "fset", "fdel"):
            guards.add(source.attr(part), "id", getattr(raw, part))
    elif kind in (classmethod, staticmethod):
        guards.add(source, "type", kind)
        guards.add(source.attr("__func__"), "id", raw.__func__)
    elif kind in (*C_DESCRIPTORS, *SLOT_DESCRIPTORS):
        guards.add(source, "type", kind)


def is_data_descriptor(raw: Any) -> bool:
    """Whether the type of a class attribute defines `__set__` or `__delete__`."""
    kind = type(raw)
    return hasattr(kind, "__set__") or hasattr(kind, "__delete__")


def is_descriptor(raw: Any) -> bool:
    """Whether reading a class attribute through an instance runs `__get__`."""
    return hasattr(type(raw), "__get__")


class CMethodVariable(VariableTracker):
    """A method written in C, found on a class: `dict.__setitem__`, `object.__init__`; bound when it has an owner."""

    def __init__(self, descriptor: Any, owner: VariableTracker | None = None) -> None:
        self.descriptor = descriptor
        self.owner = owner

    def python_type(self) -> type:
        return type(self.descriptor) if self.owner is None else types.MethodWrapperType

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        if self.owner is not None:
            return self._call(tx, self.owner.realize(), args, kwargs)
        if not args:
            tx.raise_(TypeError, f"unbound method {self.descriptor.__qualname__}() needs an argument")
        return self._call(tx, args[0].realize(), args[1:], kwargs)

    def _call(self, tx: Tx, owner: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker:
        name, base = self.descriptor.__name__, self.descriptor.__objclass__
        method = getattr(owner, "call_c_method", None)
        if method is not None:
            found: VariableTracker = method(tx, base, name, args, kwargs)
            return found
        return owner.call_method(tx, name, args, kwargs)

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if hasattr(self.descriptor, name):
            return tx.wrap(getattr(self.descriptor, name))
        tx.raise_(AttributeError, f"'{self.type_name()}' object has no attribute '{name}'")

    def hash_key(self, tx: Tx) -> Any:
        return (self.descriptor, self.owner)

    def reconstruct(self, emit: Any) -> None:
        if self.owner is None:
            emit.load_constant(self.descriptor)
        else:  # by name the owner may give another one: `super()` went past that
            emit.load_constant(self.descriptor)
            emit.op("load_attr", "__get__")
            emit(self.owner)
            emit.op("call", 1)


def bind_class_attribute(
    tx: Tx, found: ClassAttribute, owner: VariableTracker | None, cls: VariableTracker
) -> VariableTracker:
    """Apply the descriptor protocol to a class attribute.

    Args:
        owner: the instance it is read through, or None when read through the class.
        cls: the class.
    """
    if found.pending is not None:
        return bind_value(tx, found.pending, owner, cls)
    raw, source = found.raw, found.source
    kind = type(raw)
    if kind is types.FunctionType:
        function = tx.wrap(raw, source)
        return function if owner is None else BoundMethodVariable(function, owner)
    if kind is staticmethod:
        return tx.wrap(raw.__func__, source.attr("__func__") if source else None)
    if kind is classmethod:
        function = tx.wrap(raw.__func__, source.attr("__func__") if source else None)
        return BoundMethodVariable(function, cls)
    if kind is property:
        return _read_property(tx, raw, source, owner)
    if kind in C_DESCRIPTORS:
        return _bind_c_descriptor(tx, raw, owner, cls)
    if kind in SLOT_DESCRIPTORS:
        if owner is None:
            return tx.wrap(raw)
        return owner.read_slot(tx, raw)
    return _bind_other(tx, found, owner, cls)


def bind_value(tx: Tx, value: VariableTracker, owner: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
    """The descriptor protocol for a class attribute that the traced program made."""
    value = value.realize()
    if owner is not None and issubclass(value.python_type(), types.FunctionType):
        return BoundMethodVariable(value, owner)
    if hasattr(value.python_type(), "__get__") and not issubclass(value.python_type(), types.FunctionType):
        tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"descriptor of type {value.type_name()} made inside")
    return value


def _read_property(tx: Tx, raw: property, source: Source | None, owner: VariableTracker | None) -> VariableTracker:
    if owner is None:
        return tx.wrap(raw, source)
    if raw.fget is None:
        tx.raise_(AttributeError, f"property of '{owner.type_name()}' object has no getter")
    return tx.call(tx.wrap(raw.fget, source.attr("fget") if source else None), [owner])


def _bind_c_descriptor(tx: Tx, raw: Any, owner: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
    if type(raw) is types.ClassMethodDescriptorType:
        if cls.is_python_constant():
            return tx.wrap(raw.__get__(None, cls.as_python_constant()))
        tx.graph_break(gb.UNKNOWN_CALL, f"class method {raw.__qualname__}")
    if owner is None:
        return tx.wrap(raw)
    return CMethodVariable(raw, owner)


def _bind_other(tx: Tx, found: ClassAttribute, owner: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
    """A class attribute of some other type: a plain value, or a descriptor written in Python."""
    raw, source = found.raw, found.source
    if not is_descriptor(raw):
        return tx.wrap(raw, source) if source is not None else tx.wrap(raw)
    if type(raw) is _LRU_CACHE_WRAPPER:
        function = tx.wrap(raw, source)
        return function if owner is None else BoundMethodVariable(function, owner)
    getter = find_in_mro(type(raw).__mro__, "__get__")
    if getter is None or type(getter[0]) is not types.FunctionType:
        if owner is None or type(raw) in (types.BuiltinFunctionType, type):
            return tx.wrap(raw, source)
        tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"descriptor of type {type(raw).__name__}")
    descriptor = tx.wrap(raw, source)
    bound_getter = lookup_special(tx, descriptor, "__get__")
    assert bound_getter is not None
    return tx.call(bound_getter, [owner or tx.wrap(None), cls])


def lookup_special(tx: Tx, value: VariableTracker, name: str) -> VariableTracker | None:
    """A special method, looked up on the type and bound to the value; None where the type has none."""
    value = value.realize()
    cls = value.python_type()
    found = class_attribute(tx, cls, name)
    if found is None or (found.pending is None and found.raw is None):
        return None
    return bind_class_attribute(tx, found, value, tx.wrap(cls))


def has_python_method(cls: type, name: str) -> bool:
    """Whether a class defines a special method in Python rather than inheriting one written in C."""
    found = find_in_mro(cls.__mro__, name)
    return found is not None and type(found[0]) is types.FunctionType


def mro_after(cls: type, start: type) -> tuple[type, ...]:
    """The classes that `super(start, obj)` searches for an object of class `cls`."""
    mro = cls.__mro__
    return mro[mro.index(start) + 1 :]
