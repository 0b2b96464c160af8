"""Views of dicts: keys, values, items, and read-only proxies."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import Any, TypeGuard

from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker, drain
from graphwright.variables.comparison import compare, equal
from graphwright.variables.container import (
    ContainerVariable,
    Leaf,
    define_common,
    define_comparisons,
    shadow_of,
)
from graphwright.variables.dict_variable import DictVariable, Entry
from graphwright.variables.method_table import MethodTable, MethodVariable
from graphwright.variables.set import SetVariable
from graphwright.variables.tuple import TupleVariable, as_tuple

KEYS = MethodTable(type({}.keys()))
VALUES = MethodTable(type({}.values()))
PROXY = MethodTable(types.MappingProxyType)


def _key(entry: Entry) -> VariableTracker:
    return entry.key


def _value(entry: Entry) -> VariableTracker:
    return entry.value


def _item(entry: Entry) -> VariableTracker:
    return TupleVariable([entry.key, entry.value])


_PICKS: dict[str, Callable[[Entry], VariableTracker]] = {"keys": _key, "values": _value, "items": _item}


class DictViewVariable(ContainerVariable):
    """``d.keys()``, ``d.values()`` or ``d.items()`` (`kind`)."""

    def __init__(self, owner: DictVariable, kind: str) -> None:
        self.owner = owner
        self.kind = kind
        self.cls = type(getattr(owner.cls(), kind)())
        self.pick = _PICKS[kind]

    @property
    def methods(self) -> MethodTable:  # type: ignore[override]  # differs by object, and is only read
        """Keys and items are sets; values are not."""
        return VALUES if self.kind == "values" else KEYS

    def size(self, tx: Tx) -> int:
        return self.owner.size(tx)

    def iterate(self, tx: Tx) -> VariableTracker:
        kind = type(iter(getattr(self.owner.cls(), self.kind)()))
        return self.owner.entry_iterator(tx, kind, self.pick, of=self)

    def unpack(self, tx: Tx) -> list[VariableTracker]:
        return [self.pick(entry) for entry in self.owner.all_entries(tx)]

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name == "mapping":
            return MappingProxyVariable(self.owner)
        return super().getattr(tx, name)

    def hash_key(self, tx: Tx) -> Any:
        return self if self.kind == "values" else super().hash_key(tx)

    def shadow(self, tx: Tx, leaf: Leaf, memo: dict[int, Any]) -> Any:
        return getattr(shadow_of(tx, self.owner, leaf, memo), self.kind)()

    def as_set(self, tx: Tx) -> SetVariable:
        """The copy that set operators start from. Source: `dictviews_to_set` in CPython's `Objects/dictobject.c`."""
        if self.kind == "keys" and self.owner.cls is dict:
            return SetVariable.of(tx, self.owner)
        return SetVariable.of(tx, self.unpack(tx))

    def has(self, tx: Tx, wanted: VariableTracker) -> bool:
        """`wanted in view`."""
        if self.kind == "values":
            return any(equal(tx, entry.value, wanted) for entry in self.owner.all_entries(tx))
        if self.kind == "keys":
            return self.owner.lookup(tx, wanted) is not None
        pair = as_tuple(tx, wanted)
        if pair is None or len(pair.items) != 2:
            return False
        found = self.owner.lookup(tx, pair.items[0])
        return found is not None and equal(tx, found, pair.items[1])

    def reconstruct(self, emit: Emitter) -> None:
        emit(self.owner)
        emit.op("load_attr", self.kind)
        emit.op("call", 0)


@KEYS.define("__contains__", least=1)
@VALUES.define("__contains__", least=1)
def _contains(tx: Tx, self: DictViewVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(self.has(tx, args[0].realize()))


@KEYS.define("__reversed__")
@VALUES.define("__reversed__")
def _reversed(tx: Tx, self: DictViewVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    kind = type(reversed(getattr(self.owner.cls(), self.kind)()))
    return self.owner.entry_iterator(tx, kind, self.pick, of=self, backwards=True)


@KEYS.define("isdisjoint", least=1)
def _isdisjoint(tx: Tx, self: DictViewVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    other = args[0].realize()
    return tx.wrap(not any(self.has(tx, item.realize()) for item in drain(tx, other.iterate(tx).realize())))


def _intersect(tx: Tx, view: DictViewVariable, other: VariableTracker) -> VariableTracker:
    """Source: `_PyDictView_Intersect` in CPython's `Objects/dictobject.c`, for the order of the result."""
    if isinstance(other, SetVariable) and view.size(tx) <= other.size(tx):
        return other.call_method(tx, "intersection", [view], {})
    if _is_set_view(other) and other.size(tx) > view.size(tx):
        view, other = other, view
    result = SetVariable.new()
    for item in drain(tx, other.iterate(tx).realize()):
        if view.has(tx, item.realize()):
            result.add(tx, item)
    return result


def _is_set_view(value: VariableTracker) -> TypeGuard[DictViewVariable]:
    return isinstance(value, DictViewVariable) and value.kind != "values"


def _set_operator(name: str, update: str) -> None:
    @KEYS.define(f"__{name}__", least=1)
    def forward(tx: Tx, self: DictViewVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        other = args[0].realize()
        if name == "and":
            return _intersect(tx, self, other)
        result = self.as_set(tx)
        result.call_method(tx, update, [other], {})
        return result

    @KEYS.define(f"__r{name}__", least=1)
    def reflected(tx: Tx, self: DictViewVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "and":
            return _intersect(tx, self, args[0].realize())
        result = SetVariable.of(tx, args[0].realize().unpack(tx))
        result.call_method(tx, update, [self], {})
        return result


for _name, _update in (
    ("and", "intersection_update"),
    ("or", "update"),
    ("sub", "difference_update"),
    ("xor", "symmetric_difference_update"),
):
    _set_operator(_name, _update)


def _compare(tx: Tx, op: Any, self: DictViewVariable, other: VariableTracker) -> VariableTracker | None:
    if not (isinstance(other, SetVariable) or _is_set_view(other)):
        return None
    size = other.size(tx)
    own = self.size(tx)
    if op in (operator.eq, operator.ne):
        same = own == size and _all_in(tx, self, other)
        return tx.wrap(same if op is operator.eq else not same)
    if not op(own, size):
        return tx.wrap(False)
    smaller, bigger = (self, other) if op in (operator.lt, operator.le) else (other, self)
    return tx.wrap(_all_in(tx, smaller, bigger))


def _all_in(tx: Tx, smaller: VariableTracker, bigger: VariableTracker) -> bool:
    return all(bigger.call_method(tx, "__contains__", [item], {}).realize().truth(tx) for item in smaller.unpack(tx))


def _no_comparison(tx: Tx, op: Any, self: DictViewVariable, other: VariableTracker) -> VariableTracker | None:
    if op in (operator.eq, operator.ne) and other is self:
        return tx.wrap(op is operator.eq)
    return None


define_common(KEYS)
define_common(VALUES)
define_comparisons(KEYS, _compare)
define_comparisons(VALUES, _no_comparison)


# ------------------------------------------------------------------ proxies


class MappingProxyVariable(ContainerVariable):
    """A read-only view of a dict."""

    methods = PROXY
    cls = types.MappingProxyType

    def __init__(self, mapping: VariableTracker) -> None:
        self.mapping = mapping

    def size(self, tx: Tx) -> int:
        count: int = self.mapping.length(tx).realize().as_python_constant()
        return count

    def iterate(self, tx: Tx) -> VariableTracker:
        return self.mapping.iterate(tx)

    def unpack(self, tx: Tx) -> list[VariableTracker]:
        return self.mapping.unpack(tx)

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name in _FORWARDED:
            return MethodVariable(self, name)
        return super().getattr(tx, name)

    def shadow(self, tx: Tx, leaf: Leaf, memo: dict[int, Any]) -> Any:
        return types.MappingProxyType(shadow_of(tx, self.mapping, leaf, memo))

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(types.MappingProxyType)
        emit(self.mapping)
        emit.op("call", 1)


_FORWARDED = (
    "get",
    "keys",
    "values",
    "items",
    "copy",
    "__getitem__",
    "__contains__",
    "__reversed__",
    "__or__",
    "__ror__",
)


def _forwarded(name: str) -> None:
    @PROXY.define(name, most=2)
    def method(tx: Tx, self: MappingProxyVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        plain = [a.mapping if isinstance(a := arg.realize(), MappingProxyVariable) else a for arg in args]
        return self.mapping.call_method(tx, name, plain, kwargs)


for _name in _FORWARDED:
    _forwarded(_name)


def _compare_proxies(tx: Tx, op: Any, self: MappingProxyVariable, other: VariableTracker) -> VariableTracker | None:
    return compare(tx, op, self.mapping, other.mapping if isinstance(other, MappingProxyVariable) else other)


define_common(PROXY)
define_comparisons(PROXY, _compare_proxies)
