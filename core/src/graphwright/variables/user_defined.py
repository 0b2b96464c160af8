"""Objects of classes written in Python, subclasses of builtin containers included."""

from __future__ import annotations

import functools
import types
from collections import OrderedDict, deque
from typing import Any, NoReturn

import graphwright.graph_breaks as gb
from graphwright.exc import ObservedException
from graphwright.variables.base import Args, Emitter, Kwargs, NotReconstructible, Tx, VariableTracker
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.dict import DictVariable
from graphwright.variables.object_model import (
    ClassAttribute,
    bind_class_attribute,
    class_attribute,
    find_in_mro,
    has_python_method,
    is_data_descriptor,
    lookup_special,
)

_DELETED = ConstantVariable(NotImplemented)


class InstanceDictVariable(DictVariable):
    """The `__dict__` of an object; one made inside is reached through its object, never built by itself."""

    owner: VariableTracker | None = None
    """The object made inside, once the program has asked for its dict: the two lead to each other until the end."""

    def reconstruct(self, emit: Emitter) -> None:
        if self.owner is None:
            raise NotReconstructible(self)
        emit(self.owner)
        emit.op("load_attr", "__dict__")


class ObjectVariable(VariableTracker):
    """An object of a class written in Python.

    Attributes:
        cls: its class.
        attrs: its `__dict__`, or None where its class has none.
        storage: what a subclass of a builtin container holds, as a variable of that container.
    """

    def __init__(
        self, cls: type, value: Any = None, source: Any = None, storage: VariableTracker | None = None
    ) -> None:
        self.cls = cls
        self.value = value
        self.source = source
        self.storage = storage
        self.slots: dict[str, VariableTracker] = {}
        self.attrs = self._instance_dict() if cls.__dictoffset__ else None

    def _instance_dict(self) -> InstanceDictVariable:
        if self.source is None:
            attrs = InstanceDictVariable.new()
        else:
            attrs = InstanceDictVariable.outside(self.value.__dict__, self.source.instance_dict())
        return attrs

    def python_type(self) -> type:
        return self.cls

    def release(self) -> None:
        self.slots = {}
        if self.attrs is not None:
            self.attrs.release()
        if self.storage is not None:
            self.storage.release()

    # ---------------------------------------------------------- attributes

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if not has_python_method(self.cls, "__getattribute__"):
            return self.generic_getattr(tx, name)
        getter = lookup_special(tx, self, "__getattribute__")
        assert getter is not None
        try:
            return tx.call(getter, [ConstantVariable(name)])
        except ObservedException as signal:
            if not issubclass(signal.value.python_type(), AttributeError):
                raise
            return self._fallback_getattr(tx, name, signal)

    def generic_getattr(self, tx: Tx, name: str, *, hook: bool = True) -> VariableTracker:
        """`object.__getattribute__`, then `__getattr__` where `hook` is set."""
        found = class_attribute(tx, self.cls, name)
        if found is not None and found.pending is None and is_data_descriptor(found.raw):
            try:
                return self._bind(tx, found)
            except ObservedException as signal:
                if not hook or not issubclass(signal.value.python_type(), AttributeError):
                    raise
                return self._fallback_getattr(tx, name, signal)
        if self.attrs is not None:
            own = self.attrs.lookup(tx, ConstantVariable(name))
            if own is not None:
                return own
        if found is not None:
            return self._bind(tx, found)
        if hook:
            return self._fallback_getattr(tx, name, None)
        self._no_attribute(tx, name)

    def _bind(self, tx: Tx, found: ClassAttribute) -> VariableTracker:
        return bind_class_attribute(tx, found, self, tx.wrap(self.cls))

    def _fallback_getattr(self, tx: Tx, name: str, signal: ObservedException | None) -> VariableTracker:
        hook = lookup_special(tx, self, "__getattr__")
        if hook is not None:
            return tx.call(hook, [ConstantVariable(name)])
        if signal is not None:
            raise signal
        self._no_attribute(tx, name)

    def _no_attribute(self, tx: Tx, name: str) -> NoReturn:
        tx.raise_(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def read_slot(self, tx: Tx, descriptor: Any) -> VariableTracker:
        """What a descriptor written in C gives: `__slots__` members, `__dict__`, `__class__`."""
        name = descriptor.__name__
        if name == "__dict__" and self.attrs is not None:
            if self.attrs.owner is None and self.source is None:
                self.attrs.owner = self
                tx.capture.effects.at_end(functools.partial(setattr, self.attrs, "owner", None))
            return self.attrs
        if name == "__class__":
            return tx.wrap(self.cls)
        if name == "__doc__":
            return tx.wrap(self.cls.__doc__)
        if name in self.slots:
            value = self.slots[name]
            if value is _DELETED:
                self._no_attribute(tx, name)
            return value
        if type(descriptor) is not types.MemberDescriptorType:
            tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"attribute {name!r} of a {self.cls.__name__}")
        return self._outside_slot(tx, name, descriptor)

    def _outside_slot(self, tx: Tx, name: str, descriptor: Any) -> VariableTracker:
        if self.source is not None:
            try:
                value = descriptor.__get__(self.value)
            except AttributeError:
                tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"empty slot {name!r} of a {self.cls.__name__}")
            self.slots[name] = tx.lazy(value, self.source.attr(name))
            return self.slots[name]
        self._no_attribute(tx, name)

    def setattr(self, tx: Tx, name: str, value: VariableTracker) -> None:
        if has_python_method(self.cls, "__setattr__"):
            setter = lookup_special(tx, self, "__setattr__")
            assert setter is not None
            tx.call(setter, [ConstantVariable(name), value])
        else:
            self.generic_setattr(tx, name, value)

    def generic_setattr(self, tx: Tx, name: str, value: VariableTracker | None) -> None:
        """`object.__setattr__`; `object.__delattr__` where value is None."""
        found = class_attribute(tx, self.cls, name)
        if found is not None and found.pending is None and is_data_descriptor(found.raw):
            self._set_through_descriptor(tx, found, name, value)
            return
        if self.attrs is None:
            self._no_attribute(tx, name)
        elif value is not None:
            self.attrs.store(tx, ConstantVariable(name), value)
        elif self.attrs.remove(tx, ConstantVariable(name)) is None:
            self._no_attribute(tx, name)

    def _set_through_descriptor(self, tx: Tx, found: ClassAttribute, name: str, value: VariableTracker | None) -> None:
        raw = found.raw
        if type(raw) is property:
            part = "fset" if value is not None else "fdel"
            function = getattr(raw, part)
            if function is None:
                action = "setter" if value is not None else "deleter"
                tx.raise_(AttributeError, f"property '{name}' of '{self.cls.__name__}' object has no {action}")
            source = found.source.attr(part) if found.source else None
            tx.call(tx.wrap(function, source), [self] if value is None else [self, value])
        elif type(raw) is types.MemberDescriptorType:
            tx.capture.effects.mutate(self)
            self.slots[name] = value if value is not None else _DELETED
        elif has_python_method(type(raw), "__set__") and value is not None:
            setter = lookup_special(tx, tx.wrap(raw, found.source), "__set__")
            assert setter is not None
            tx.call(setter, [self, value])
        else:
            tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"setting {name!r} of a {self.cls.__name__}")

    def delattr(self, tx: Tx, name: str) -> None:
        if has_python_method(self.cls, "__delattr__"):
            deleter = lookup_special(tx, self, "__delattr__")
            assert deleter is not None
            tx.call(deleter, [ConstantVariable(name)])
        else:
            self.generic_setattr(tx, name, None)

    # ---------------------------------------------------------- methods

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name.startswith("__") and name.endswith("__"):
            special = lookup_special(tx, self, name)
            if special is None:
                tx.raise_(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
            return tx.call(special, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        special = lookup_special(tx, self, "__call__")
        if special is None:
            tx.raise_(TypeError, f"'{self.cls.__name__}' object is not callable")
        return tx.call(special, args, kwargs)

    def call_c_method(self, tx: Tx, base: type, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """A method that `base`, written in C, defines: `object.__setattr__`, `dict.__setitem__` on the storage."""
        if base is object:
            return self._object_method(tx, name, args, kwargs)
        if self.storage is None:
            tx.graph_break(gb.UNKNOWN_CALL, f"{base.__name__}.{name} on a {self.cls.__name__}")
        if name == "__getitem__" and isinstance(self.storage, DictVariable) and self._has_own_missing():
            self.storage.on_missing = self._missing
        if name == "__init__":
            filler = "update" if isinstance(self.storage, DictVariable) or base is set else "extend"
            if args or kwargs:
                self.storage.call_method(tx, filler, args, kwargs)
            return tx.wrap(None)
        return self.storage.call_method(tx, name, args, kwargs)

    def _has_own_missing(self) -> bool:
        return has_python_method(self.cls, "__missing__")

    def _missing(self, tx: Tx, key: VariableTracker) -> VariableTracker:
        return self.call_method(tx, "__missing__", [key], {})

    def _object_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in ("__getattribute__", "__setattr__", "__delattr__"):
            key = args[0].realize().as_python_constant()
            if name == "__getattribute__":
                return self.generic_getattr(tx, key, hook=False)
            self.generic_setattr(tx, key, args[1] if name == "__setattr__" else None)
            return tx.wrap(None)
        if name == "__init__":
            return self._object_init(tx, args, kwargs)
        if name in ("__eq__", "__ne__"):
            same = args[0].realize() is self
            return tx.wrap(NotImplemented if not same else name == "__eq__")
        if name == "__init_subclass__":
            return tx.wrap(None)
        if name in ("__lt__", "__le__", "__gt__", "__ge__"):
            return tx.wrap(NotImplemented)
        if name == "__format__" and args and args[0].realize().as_python_constant() == "":
            return tx.call(tx.wrap(str), [self])
        if name == "__str__":
            return tx.call(tx.wrap(repr), [self])
        tx.graph_break(gb.UNKNOWN_CALL, f"object.{name} on a {self.cls.__name__}")

    def _object_init(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        if (args or kwargs) and self.storage is None and not has_python_method(self.cls, "__new__"):
            tx.raise_(TypeError, f"{self.cls.__name__}() takes no arguments")
        return tx.wrap(None)

    # ---------------------------------------------------------- protocols

    def _through(self, tx: Tx, name: str, args: Args = ()) -> VariableTracker | None:
        """The result of a special method, or None where the class has none."""
        special = lookup_special(tx, self, name)
        return None if special is None else tx.call(special, args)

    def truth(self, tx: Tx) -> bool:
        result = self._through(tx, "__bool__")
        if result is None:
            if find_in_mro(self.cls.__mro__, "__len__") is None:
                lookup_special(tx, self, "__len__")
                return True
            result = self.length(tx)
        return result.realize().truth(tx)

    def length(self, tx: Tx) -> VariableTracker:
        result = self._through(tx, "__len__")
        return super().length(tx) if result is None else result.realize()

    def iterate(self, tx: Tx) -> VariableTracker:
        result = self._through(tx, "__iter__")
        if result is not None:
            return result.realize()
        if find_in_mro(self.cls.__mro__, "__getitem__") is not None:
            return GetItemIterator(self)
        tx.raise_(TypeError, f"'{self.cls.__name__}' object is not iterable")

    def next_item(self, tx: Tx) -> VariableTracker:
        result = self._through(tx, "__next__")
        return super().next_item(tx) if result is None else result

    def hash_key(self, tx: Tx) -> Any:
        found = find_in_mro(self.cls.__mro__, "__hash__")
        if found is not None and found[0] is object.__hash__:
            return self.value if self.value is not None else self
        if found is None or found[0] is None:
            tx.raise_(TypeError, f"unhashable type: '{self.cls.__name__}'")
        tx.graph_break(gb.UNKNOWN_COMPARISON, f"hash of a {self.cls.__name__}, which has its own __hash__")

    # ---------------------------------------------------------- codegen

    def reconstruct(self, emit: Emitter) -> None:
        maker = object if self.storage is None else layout_base(self.cls)
        emit.load_constant(maker.__new__)
        emit.load_class(self.cls)
        if self.storage is not None and maker is tuple:
            emit(self.storage)
        emit.op("call", 2 if maker is tuple else 1)
        emit.remember(self)
        if self.storage is not None and maker is not tuple:
            self._fill_storage(emit, maker)
        for key, value in self.attrs.entries() if self.attrs is not None else ():
            emit.op("copy", 1)
            emit.op("load_attr", "__dict__")
            emit(value)
            emit.op("swap", 2)
            emit(key)
            emit.op("store_subscr")
        self._emit_slots(emit)

    def _fill_storage(self, emit: Emitter, maker: Any) -> None:
        """Fill the container on top of the stack, leaving it there."""
        assert self.storage is not None
        if isinstance(self.storage, DictVariable):
            for key, value in self.storage.entries():
                emit.load_constant(maker.__setitem__)
                emit(self)
                emit(key)
                emit(value)
                emit.op("call", 3)
                emit.op("pop_top")
            return
        fill = set.update if maker is set else getattr(maker, "extend", None)
        if fill is None:
            raise NotReconstructible(self)
        emit.load_constant(fill)
        emit(self)
        self.storage.reconstruct(emit)
        emit.op("call", 2)
        emit.op("pop_top")

    def _emit_slots(self, emit: Emitter) -> None:
        for name, value in self.slots.items():
            emit.load_constant(object.__setattr__ if value is not _DELETED else object.__delattr__)
            emit(self)
            emit.load_constant(name)
            if value is not _DELETED:
                emit(value)
            emit.op("call", 3 if value is not _DELETED else 2)
            emit.op("pop_top")

    def replay(self, emit: Emitter) -> None:
        self._emit_slots(emit)

    def __repr__(self) -> str:
        origin = f" from {self.source}" if self.source is not None else " made inside"
        return f"<{self.cls.__name__} object{origin}>"


class GetItemIterator(VariableTracker):
    """Iteration over an object that has `__getitem__` and no `__iter__`."""

    def __init__(self, owner: VariableTracker) -> None:
        self.owner = owner
        self.position = 0

    def python_type(self) -> type:
        return type(iter(_Sequence()))

    def iterate(self, tx: Tx) -> VariableTracker:
        return self

    def next_item(self, tx: Tx) -> VariableTracker:
        try:
            item = self.owner.call_method(tx, "__getitem__", [ConstantVariable(self.position)], {})
        except ObservedException as signal:
            if not issubclass(signal.value.python_type(), IndexError):
                raise
            tx.raise_(StopIteration)
        self.position += 1
        return item


class _Sequence:
    def __getitem__(self, index: int) -> Any:
        raise IndexError


CONTAINER_BASES = (OrderedDict, dict, list, set, deque, tuple)


def layout_base(cls: type) -> type:
    """The nearest class in the MRO that is written in C: it decides what objects hold besides attributes."""
    for base in cls.__mro__:
        if not base.__flags__ & (1 << 9):  # Py_TPFLAGS_HEAPTYPE: made by a class statement or PyType_FromSpec
            return base
        if base.__module__ == "collections" and base.__name__ in ("deque", "defaultdict", "OrderedDict"):
            return base
    return object
