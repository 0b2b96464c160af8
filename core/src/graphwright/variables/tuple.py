"""Tuples: exact ones, `torch.Size`, named tuples and the result types of torch."""

from __future__ import annotations

import operator
import types
from typing import Any

import torch

import graphwright.graph_breaks as gb
from graphwright.sources import Source
from graphwright.trust import is_trusted_class
from graphwright.variables.base import Args, Emitter, Kwargs, LazyVariable, Tx, VariableTracker
from graphwright.variables.comparison import compare, compare_sequences, equal, find
from graphwright.variables.constant import ConstantVariable, is_literal
from graphwright.variables.container import (
    ContainerVariable,
    Leaf,
    backing,
    define_common,
    define_comparisons,
    shadow_of,
)
from graphwright.variables.iterator import LiveIterator
from graphwright.variables.list import index_in, position_of
from graphwright.variables.method_table import MethodTable, MethodVariable, index_value, run_model

TUPLE = MethodTable(tuple)


class TupleVariable(ContainerVariable):
    """A tuple, or an instance of a tuple class without a `__dict__`. Items may be lazy."""

    methods = TUPLE

    def __init__(self, items: list[VariableTracker], source: Source | None = None, cls: type = tuple) -> None:
        self.items = items
        self.source = source
        self.cls = cls

    @classmethod
    def outside(cls, tx: Tx, value: tuple[Any, ...], source: Source) -> TupleVariable:
        """The variable of a tuple that came from outside: its length is guarded, its items are lazy."""
        tx.capture.guards.add(source, "len", tuple.__len__(value))
        items: list[VariableTracker] = [tx.lazy(v, source.index(i)) for i, v in enumerate(tuple.__iter__(value))]
        return cls(items, source, type(value))

    # ---------------------------------------------------------- constants, graph

    def is_python_constant(self) -> bool:
        return all(map(_is_constant_item, self.items))

    def as_python_constant(self) -> Any:
        return make_tuple(self.cls, [item.realize().as_python_constant() for item in self.items])

    def as_proxy(self) -> Any:
        proxies = [item.realize().as_proxy() for item in self.items]
        if self.cls is torch.Size and not all(type(p) is int for p in proxies):
            return tuple(proxies)
        return make_tuple(self.cls, proxies)

    # ---------------------------------------------------------- data model

    def size(self, tx: Tx) -> int:
        return len(self.items)

    def iterate(self, tx: Tx) -> VariableTracker:
        own = self._python_method("__iter__")
        if own is not None:
            return self._call_own(tx, "__iter__", own, [], {}).realize()
        return LiveIterator(self, lambda: self.items, type(iter(())))

    def unpack(self, tx: Tx) -> list[VariableTracker]:
        return super().unpack(tx) if self._python_method("__iter__") is not None else list(self.items)

    def length(self, tx: Tx) -> VariableTracker:
        own = self._python_method("__len__")
        return super().length(tx) if own is None else self._call_own(tx, "__len__", own, [], {}).realize()

    def truth(self, tx: Tx) -> bool:
        own = self._python_method("__bool__")
        if own is not None:
            return self._call_own(tx, "__bool__", own, [], {}).realize().truth(tx)
        return self.length(tx).truth(tx)

    def hash_key(self, tx: Tx) -> Any:
        if self._python_method("__hash__") is not None or self._python_method("__eq__") is not None:
            tx.graph_break(gb.UNKNOWN_COMPARISON, f"hash of a {self.type_name()}, which has its own")
        return tuple(item.realize().hash_key(tx) for item in self.items)

    def shadow(self, tx: Tx, leaf: Leaf, memo: dict[int, Any]) -> Any:
        items = [shadow_of(tx, item, leaf, memo) for item in self.items]
        if self.cls is torch.Size and not all(type(i) is int for i in items):
            return _ShownSize(items)
        return make_tuple(self.cls, items)

    # ---------------------------------------------------------- named tuples

    def _raw(self, name: str) -> tuple[Any, type] | None:
        for base in self.cls.__mro__:
            if name in base.__dict__:
                return base.__dict__[name], base
        return None

    def _python_method(self, name: str) -> types.FunctionType | None:
        if self.cls is tuple or self.cls is torch.Size:
            return None
        found = self._raw(name)
        return found[0] if found is not None and isinstance(found[0], types.FunctionType) else None

    def _call_own(self, tx: Tx, name: str, fn: types.FunctionType, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.call(tx.wrap(fn, self._guarded(tx, name, fn)), [self, *args], kwargs)

    def _guarded(self, tx: Tx, name: str, raw: Any) -> Source | None:
        if is_trusted_class(self.cls):
            return None
        source = tx.capture.roots.object(self.cls).mro_attr(name)
        tx.capture.guards.add(source, "id", raw)
        return source

    def _property_getter(self, tx: Tx, name: str, raw: property) -> Source | None:
        """The source of a property's function: properties can't be held weakly, their functions can."""
        if is_trusted_class(self.cls):
            return None
        source = tx.capture.roots.object(self.cls).mro_attr(name)
        tx.capture.guards.add(source, "type", property)
        tx.capture.guards.add(source.attr("fget"), "id", raw.fget)
        return source.attr("fget")

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if self.cls is torch.Size and name in ("numel", "__radd__"):
            return MethodVariable(self, name)
        found = self._raw(name)
        if found is None or found[1] in (tuple, object, torch.Size):
            return super().getattr(tx, name)
        raw = found[0]
        position = field_position(self.cls, name)
        if position is not None:
            return self.items[position]
        if isinstance(raw, types.FunctionType):
            return MethodVariable(self, name)
        if isinstance(raw, (classmethod, staticmethod)):
            bound = tx.wrap(self.cls).getattr(tx, name)
            return bound
        if isinstance(raw, property) and raw.fget is not None:
            return tx.call(tx.wrap(raw.fget, self._property_getter(tx, name, raw)), [self])
        if hasattr(type(raw), "__get__"):
            tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"attribute {name!r} of a {self.type_name()}")
        if is_literal(raw) and not is_trusted_class(self.cls):
            return tx.wrap(raw, tx.capture.roots.object(self.cls).mro_attr(name))
        return tx.wrap(raw, self._guarded(tx, name, raw))

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        own = self._python_method(name)
        if own is not None:
            return self._call_own(tx, name, own, args, kwargs)
        if name == "numel" and self.cls is torch.Size:
            return self._numel(tx)
        if name == "__radd__" and self.cls is torch.Size:
            left = as_tuple(tx, args[0])
            return tx.wrap(NotImplemented) if left is None else _joined(tx, left, self)
        if name not in self.methods and self._raw(name) is not None:
            return tx.call(self.getattr(tx, name), args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def _numel(self, tx: Tx) -> VariableTracker:
        total: VariableTracker = ConstantVariable(1)
        for item in self.items:
            total = compare(tx, operator.mul, total, item)
        return total

    # ---------------------------------------------------------- codegen

    def reconstruct(self, emit: Emitter) -> None:
        if self.cls is not tuple:
            emit.load_constant(_MAKERS.get(_kind(self.cls), tuple.__new__))
            if _kind(self.cls) != "size":
                emit.load_class(self.cls)
        for item in self.items:
            emit(item)
        emit.op("build_tuple", len(self.items))
        if self.cls is not tuple:
            emit.op("call", 1 if _kind(self.cls) == "size" else 2)

    def __repr__(self) -> str:
        return f"<{self.cls.__name__} of {len(self.items)}{' from ' + str(self.source) if self.source else ''}>"


def _kind(cls: type) -> str:
    if cls is torch.Size:
        return "size"
    return "structseq" if is_structseq(cls) else "tuple"


def _call_class(cls: type, items: tuple[Any, ...]) -> Any:
    return cls(items)


_MAKERS = {"size": torch.Size, "structseq": _call_class}


class _ShownSize:
    """Shows as a `torch.Size` whose numbers are not known."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __repr__(self) -> str:
        return f"torch.Size({self.items!r})"


def _is_constant_item(item: VariableTracker) -> bool:
    if isinstance(item, LazyVariable) and not item.is_realized() and not _may_be_constant(item.value):
        return False
    return item.realize().is_python_constant()


def _may_be_constant(value: object) -> bool:
    return is_literal(value) or isinstance(value, type)


def is_structseq(cls: type) -> bool:
    """Whether a class is a sequence with named fields made in C, as `torch.return_types` holds."""
    return "n_sequence_fields" in cls.__dict__ and issubclass(cls, tuple)


def is_tuple_class(cls: type) -> bool:
    """Whether instances of a class hold nothing but tuple items: exact tuples, sizes, named tuples."""
    if cls in (tuple, torch.Size):
        return True
    return issubclass(cls, tuple) and cls.__dictoffset__ == 0 and (is_structseq(cls) or hasattr(cls, "_fields"))


def field_position(cls: type, name: str) -> int | None:
    """The position of the item that a field name of a tuple class stands for."""
    fields: tuple[str, ...] = getattr(cls, "__match_args__" if is_structseq(cls) else "_fields", ())
    if name not in fields:
        return None
    for base in cls.__mro__:
        if name in base.__dict__:
            kind = type(base.__dict__[name])
            return fields.index(name) if kind.__name__ in ("_tuplegetter", "member_descriptor") else None
    return None


def make_tuple(cls: type, items: list[Any]) -> Any:
    """A real instance of a tuple class."""
    if cls is tuple:
        return tuple(items)
    if cls is torch.Size or is_structseq(cls):
        return cls(items)
    return tuple.__new__(cls, items)


# ------------------------------------------------------------------ methods


@TUPLE.define("__getitem__", least=1)
def _getitem(tx: Tx, self: TupleVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    model = tuple(self.items)
    found = run_model(tx, operator.getitem, model, position_of(tx, args[0]))
    if found is model and self.cls is tuple:  # a slice of everything is the tuple itself
        return self
    return TupleVariable(list(found), cls=_sliced(self.cls)) if isinstance(found, tuple) else found


def _sliced(cls: type) -> type:
    return cls if cls is torch.Size else tuple


@TUPLE.define("__contains__", least=1)
def _contains(tx: Tx, self: TupleVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(find(tx, self.items, args[0]) >= 0)


@TUPLE.define("count", least=1)
def _count(tx: Tx, self: TupleVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(sum(equal(tx, item, args[0]) for item in self.items))


@TUPLE.define("index", least=1, most=3)
def _index(tx: Tx, self: TupleVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(index_in(tx, self.items, tuple, args))


@TUPLE.define("__init__", most=-1, keywords=("*",))
def _init(tx: Tx, self: TupleVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(None)


@TUPLE.define("__getnewargs__")
def _getnewargs(tx: Tx, self: TupleVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return TupleVariable([TupleVariable(list(self.items))])


def as_tuple(tx: Tx, value: VariableTracker) -> TupleVariable | None:
    """A tuple variable of a tuple, of a constant tuple, or of an object of a tuple subclass."""
    value = value.realize()
    if isinstance(value, ConstantVariable) and issubclass(value.python_type(), tuple):
        return TupleVariable([tx.wrap(v) for v in value.value], value.source, type(value.value))
    return backing(value, TupleVariable)


def _joined(tx: Tx, first: TupleVariable, second: TupleVariable) -> TupleVariable:
    for whole, rest in ((first, second), (second, first)):
        if whole.cls is tuple and rest.cls is tuple and not rest.items:
            return whole
    items = [*first.items, *second.items]
    cls = torch.Size if torch.Size in (first.cls, second.cls) else tuple
    numbers = all(issubclass(item.realize().python_type(), (int, torch.SymInt)) for item in items)
    if cls is torch.Size and not numbers:
        run_model(tx, torch.Size, [object()])
    return TupleVariable(items, cls=cls)


@TUPLE.define("__add__", least=1)
def _add(tx: Tx, self: TupleVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    other = as_tuple(tx, args[0])
    if other is None:
        other_type = args[0].realize().type_name()
        if self.cls is torch.Size:
            tx.raise_(TypeError, f"can only concatenate tuple (not {other_type}) to torch.Size")
        tx.raise_(TypeError, f'can only concatenate tuple (not "{other_type}") to tuple')
    return _joined(tx, self, other)


@TUPLE.define("__mul__", "__rmul__", least=1)
def _mul(tx: Tx, self: TupleVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    model = tuple(self.items)
    repeated = run_model(tx, operator.mul, model, index_value(tx, args[0]))
    if repeated is model and self.cls is tuple:
        return self
    return TupleVariable(list(repeated), cls=_sliced(self.cls))


def _compare(tx: Tx, op: Any, self: TupleVariable, other: VariableTracker) -> VariableTracker | None:
    right = as_tuple(tx, other)
    if right is None:
        return None
    return compare_sequences(tx, op, self.items, right.items, length_decides=False)


define_common(TUPLE)
define_comparisons(TUPLE, _compare)
