"""Classes: attribute access and making objects."""

from __future__ import annotations

import enum
import inspect
import types
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.trust import is_trusted_class
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker
from graphwright.variables.constant import constant_call
from graphwright.variables.dict import DictVariable
from graphwright.variables.exception import WITH_FIELDS, ExceptionVariable
from graphwright.variables.object_model import (
    bind_class_attribute,
    class_attribute,
    find_in_mro,
    has_python_method,
    lookup_special,
)
from graphwright.variables.sequence import TupleVariable
from graphwright.variables.storage import new_storage
from graphwright.variables.user_defined import CONTAINER_BASES, ObjectVariable, layout_base

_TYPE_PROPERTIES = frozenset(
    {"__name__", "__qualname__", "__module__", "__doc__", "__mro__", "__bases__", "__base__", "__flags__",
     "__basicsize__", "__abstractmethods__", "__dictoffset__", "__annotations__", "__text_signature__"}
)  # fmt: skip


class ClassVariable(VariableTracker):
    """A class."""

    def __init__(self, cls: type, source: Any = None) -> None:
        self.cls = cls
        self.source = source

    def python_type(self) -> type:
        return type(self.cls)

    def is_python_constant(self) -> bool:
        return True

    def as_python_constant(self) -> Any:
        return self.cls

    def hash_key(self, tx: Tx) -> Any:
        return self.cls

    def truth(self, tx: Tx) -> bool:
        if type(self.cls) is type or isinstance(self.cls, enum.EnumMeta):
            return True
        mro = self._metaclass_mro()
        if find_in_mro(mro, "__bool__") or find_in_mro(mro, "__len__"):
            tx.graph_break(gb.UNKNOWN_COMPARISON, f"truth of the class {self.cls.__name__}")
        return True

    def _metaclass_mro(self) -> tuple[type, ...]:
        metaclass: type = type(self.cls)
        return metaclass.__mro__

    # ---------------------------------------------------------- attributes

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name in _TYPE_PROPERTIES:
            return constant_call(tx, getattr, [self.cls, name])
        if name == "__class__":
            return tx.wrap(type(self.cls))
        if name == "__dict__":
            return tx.wrap(self.cls.__dict__, tx.capture.roots.object(self.cls).attr("__dict__"))
        if isinstance(self.cls, enum.EnumMeta) and name in self.cls.__members__:
            return tx.wrap(self.cls.__members__[name])
        if has_python_method(type(self.cls), "__getattribute__"):
            tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"metaclass of {self.cls.__name__} has its own __getattribute__")
        found = class_attribute(tx, self.cls, name)
        if found is not None:
            return bind_class_attribute(tx, found, None, self)
        on_meta = class_attribute(tx, type(self.cls), name)
        if on_meta is not None:
            if type(on_meta.raw) in (types.MethodDescriptorType, types.WrapperDescriptorType):
                return tx.wrap(getattr(self.cls, name))
            return bind_class_attribute(tx, on_meta, self, tx.wrap(type(self.cls)))
        hook = lookup_special(tx, self, "__getattr__")
        if hook is not None:
            return tx.call(hook, [tx.wrap(name)])
        tx.raise_(AttributeError, f"type object '{self.cls.__name__}' has no attribute '{name}'")

    def read_slot(self, tx: Tx, descriptor: Any) -> VariableTracker:
        """A getset descriptor of the metaclass."""
        return constant_call(tx, descriptor.__get__, [self.cls])

    def setattr(self, tx: Tx, name: str, value: VariableTracker) -> None:
        if has_python_method(type(self.cls), "__setattr__") or name.startswith("__"):
            tx.graph_break(gb.MUTATION_OF_UNKNOWN, f"setting {name!r} of the class {self.cls.__name__}")
        tx.capture.effects.set_class_attribute(self.cls, name, value)

    # ---------------------------------------------------------- calls

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        cls = self.cls
        if has_python_method(type(cls), "__call__") and not isinstance(cls, enum.EnumMeta):
            special = lookup_special(tx, self, "__call__")
            assert special is not None
            return tx.call(special, args, kwargs)
        return self.make_instance(tx, args, kwargs)

    def call_c_method(self, tx: Tx, base: type, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """A method of `type` itself, reached through `super()` in a metaclass."""
        if name == "__call__":
            return self.make_instance(tx, args, kwargs)
        tx.graph_break(gb.UNKNOWN_CALL, f"{base.__name__}.{name} of the class {self.cls.__name__}")

    def make_instance(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`type.__call__`: `__new__`, then `__init__` where the result is an instance."""
        cls = self.cls
        if isinstance(cls, enum.EnumMeta):
            return self._constant_instance(tx, args, kwargs)
        if inspect.isabstract(cls):
            missing = sorted(getattr(cls, "__abstractmethods__", ()))
            methods = f"method{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
            tx.raise_(TypeError, f"Can't instantiate abstract class {cls.__name__} with abstract {methods}")
        made = self._new(tx, args, kwargs)
        if issubclass(made.realize().python_type(), cls):
            self._init(tx, made.realize(), args, kwargs)
        return made

    def _new(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        found = class_attribute(tx, self.cls, "__new__")
        assert found is not None
        raw: Any = found.raw.__func__ if isinstance(found.raw, staticmethod) else found.raw
        if type(raw) is types.FunctionType:
            source = found.source
            if source is not None and isinstance(found.raw, staticmethod):
                source = source.attr("__func__")
            return tx.call(tx.wrap(raw, source), [self, *args], kwargs)
        return self.c_new(tx, raw.__self__, args, kwargs)

    def c_new(self, tx: Tx, base: type, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`base.__new__(cls, *args)` for a base written in C."""
        cls = self.cls
        if hasattr(cls, "__del__"):  # an object that nobody needs afterwards is never made
            tx.graph_break(gb.UNKNOWN_CALL, f"making an object of {cls.__qualname__}, which has a __del__")
        if issubclass(cls, WITH_FIELDS):
            tx.graph_break(gb.UNKNOWN_CALL, f"making a {cls.__qualname__}, which has fields besides its arguments")
        if issubclass(cls, BaseException):
            return ExceptionVariable(cls, TupleVariable(list(args)))
        layout = layout_base(cls)
        if layout is object:
            return ObjectVariable(cls)
        if layout is tuple and base is tuple:
            items = args[0].realize().unpack(tx) if args else []
            if hasattr(cls, "_fields"):
                return TupleVariable(items, cls=cls)
            return ObjectVariable(cls, storage=TupleVariable(items))
        if layout in CONTAINER_BASES:
            return ObjectVariable(cls, storage=new_storage(layout))
        tx.graph_break(gb.UNKNOWN_CALL, f"making an object of {cls.__module__}.{cls.__qualname__}")

    def _init(self, tx: Tx, made: VariableTracker, args: Args, kwargs: Kwargs) -> None:
        found = class_attribute(tx, self.cls, "__init__")
        if found is None:
            return
        if type(found.raw) is types.WrapperDescriptorType and not isinstance(made, ObjectVariable):
            return
        tx.call(bind_class_attribute(tx, found, made, self), args, kwargs)

    def _constant_instance(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        values = [a.realize() for a in args]
        named = {k: v.realize() for k, v in kwargs.items()}
        if all(v.is_python_constant() for v in (*values, *named.values())):
            arguments = [v.as_python_constant() for v in values]
            return constant_call(tx, self.cls, arguments, {k: v.as_python_constant() for k, v in named.items()})
        tx.graph_break(gb.UNKNOWN_CALL, f"making a {self.cls.__name__} from values that are not constants")

    # ---------------------------------------------------------- enum classes as collections

    def _members(self, tx: Tx) -> list[VariableTracker]:
        if not isinstance(self.cls, enum.EnumMeta):
            special = lookup_special(tx, self, "__iter__")
            if special is not None:
                return tx.call(special, []).realize().unpack(tx)
            tx.raise_(TypeError, f"'{type(self.cls).__name__}' object is not iterable")
        members: list[enum.Enum] = list(self.cls)
        return [tx.wrap(member) for member in members]

    def iterate(self, tx: Tx) -> VariableTracker:
        return TupleVariable(self._members(tx)).iterate(tx)

    def length(self, tx: Tx) -> VariableTracker:
        return tx.wrap(len(self._members(tx)))

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if isinstance(self.cls, enum.EnumMeta) and name in ("__getitem__", "__contains__"):
            key = args[0].realize()
            if key.is_python_constant():
                return constant_call(tx, getattr(type(self.cls), name), [self.cls, key.as_python_constant()])
        if name == "__getitem__" and find_in_mro(self._metaclass_mro(), "__getitem__") is None:
            return self._subscript(tx, args)
        return super().call_method(tx, name, args, kwargs)

    def _subscript(self, tx: Tx, args: Args) -> VariableTracker:
        key = args[0].realize()
        if is_trusted_class(self.cls) and key.is_python_constant():
            cls: Any = self.cls
            return constant_call(tx, lambda: cls[key.as_python_constant()], [])
        return tx.call(self.getattr(tx, "__class_getitem__"), args)

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_class(self.cls)

    def __repr__(self) -> str:
        return f"<class {self.cls.__qualname__}>"


def as_dict_storage(value: VariableTracker) -> DictVariable | None:
    """The dict behind a variable, of a dict or of an object of a dict subclass."""
    value = value.realize()
    if isinstance(value, DictVariable):
        return value
    storage = getattr(value, "storage", None)
    return storage if isinstance(storage, DictVariable) else None
