"""Tables of the methods that builtin containers have in C, and the bound method objects made from them."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Iterator
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.exc import GraphBreak, GraphwrightError, NotConstant, NotProxyable, ObservedException
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker, is_the

Method = Callable[[Tx, Any, list[VariableTracker], Kwargs], VariableTracker]
SIGNALS = (ObservedException, GraphBreak, NotConstant, NotProxyable, GraphwrightError)
"""What must pass through Python's own algorithms untouched."""


def run_model(tx: Tx, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run Python's own operation on a model of the value; what it raises is raised in the traced program."""
    try:
        return fn(*args, **kwargs)
    except SIGNALS:
        raise
    except Exception as error:  # noqa: BLE001  the model raises what eager raises
        tx.raise_(type(error), *error.args)


def index_value(tx: Tx, value: VariableTracker) -> Any:
    """The number that a value stands for as an index; a value of a wrong type comes back for the model to refuse."""
    value = value.realize()
    if value.is_python_constant():
        return value.as_python_constant()
    if type_has(value.python_type(), "__index__"):
        result = value.call_method(tx, "__index__", [], {}).realize()
        if result.is_python_constant():
            return result.as_python_constant()
        tx.graph_break(gb.UNSUPPORTED_VALUE, f"index of a {value.type_name()} that is not known while capturing")
    return type_example(value.python_type())


def type_has(cls: type, name: str) -> bool:
    """Whether a class or its bases define a name; unlike `hasattr`, the metaclass has no say."""
    return any(name in base.__dict__ for base in cls.__mro__)


def is_iterable_type(cls: type) -> bool:
    """Whether `iter` accepts instances of a class."""
    return type_has(cls, "__iter__") or type_has(cls, "__getitem__")


def type_example(kind: type) -> Any:
    """An object whose type has the same name, for error messages that name it."""
    return type(kind.__name__, (), {})()


def is_not_implemented(value: VariableTracker) -> bool:
    """Whether a special method gave the constant NotImplemented."""
    return is_the(value, NotImplemented)


class MethodTable:
    """The methods of one builtin class, by name."""

    def __init__(self, cls: type, *bases: MethodTable) -> None:
        self.cls = cls
        self._entries: dict[str, tuple[Method, int, int, frozenset[str]]] = {}
        for base in bases:
            self._entries.update(base._entries)

    def define(
        self, *names: str, least: int = 0, most: int | None = None, keywords: tuple[str, ...] = ()
    ) -> Callable[[Method], Method]:
        """Register a method under its names.

        Args:
            names: names of the method.
            least: how many positional arguments it needs.
            most: how many it takes; as many as it needs when left out, any number when negative.
            keywords: names it takes as keywords; `*` for any.
        """
        limit = least if most is None else most

        def enter(method: Method) -> Method:
            for name in names:
                self._entries[name] = (method, least, limit, frozenset(keywords))
            return method

        return enter

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def call(self, tx: Tx, owner: VariableTracker, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Call a method of the table; graph break for a method of the class that the table lacks."""
        found = self._entries.get(name)
        if found is None:
            if hasattr(self.cls, name):
                tx.graph_break(gb.UNKNOWN_CALL, f"{self.cls.__name__}.{name}")
            tx.raise_(AttributeError, f"'{owner.type_name()}' object has no attribute '{name}'")
        method, least, most, keywords = found
        too_many = len(args) > most >= 0
        if len(args) < least or too_many or not ("*" in keywords or keywords.issuperset(kwargs)):
            raise_signature_error(tx, owner.python_type(), self.cls, name, args, kwargs)
        return method(tx, owner, list(args), dict(kwargs))


def raise_signature_error(tx: Tx, kind: type, base: type, name: str, args: Args, kwargs: Kwargs) -> None:
    """Let an empty instance of the class refuse the same arguments, for its message."""
    try:
        empty = _empty(kind, base)
        # Unbound, as the interpreter calls methods: messages name the class that defines the method.
        method = getattr(type(empty), name)
        method(empty, *[_example(a) for a in args], **{k: _example(v) for k, v in kwargs.items()})
    except Exception as error:  # noqa: BLE001  the message is what is wanted
        tx.raise_(type(error), *error.args)
    tx.raise_(TypeError, f"{base.__name__}.{name}() got arguments it does not take")


def _empty(kind: type, base: type) -> Any:
    """An empty instance of a class, or of the builtin that it stands for."""
    for empty in (*_EMPTY_VIEWS, slice(None)):
        if type(empty) is kind:
            return empty
    try:
        return kind()
    except TypeError:
        return base()


_EMPTY_DICTS: tuple[dict[Any, Any], ...] = ({}, collections.OrderedDict())
_EMPTY_VIEWS: tuple[Any, ...] = (
    *(view for empty in _EMPTY_DICTS for view in (empty.keys(), empty.values(), empty.items())),
    types.MappingProxyType({}),
)


def _example(value: VariableTracker) -> Any:
    value = value.realize()
    try:
        return value.as_python_constant()
    except NotConstant:
        return type_example(value.python_type())


class MethodVariable(VariableTracker):
    """A bound method of a builtin container, such as ``items.append`` taken as a value."""

    def __init__(self, owner: VariableTracker, name: str) -> None:
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        kind = type(_static(self.owner.python_type(), self.name))
        if kind is types.WrapperDescriptorType:
            return types.MethodWrapperType
        return types.MethodType if kind is types.FunctionType else types.BuiltinMethodType

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.owner.call_method(tx, self.name, args, kwargs)

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name == "__self__":
            return self.owner
        if name == "__name__":
            return tx.wrap(self.name)
        if name == "__doc__":
            return tx.wrap(getattr(self.owner.python_type(), self.name).__doc__)
        return super().getattr(tx, name)

    def hash_key(self, tx: Tx) -> Any:
        return (MethodVariable, self.owner, self.name)

    def reconstruct(self, emit: Emitter) -> None:
        emit(self.owner)
        emit.op("load_attr", self.name)


def _static(cls: type, name: str) -> Any:
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return None
