"""The methods of sets and frozen sets."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from graphwright import graph_breaks as gb
from graphwright.variables.base import Args, Kwargs, Tx, VariableTracker, drain
from graphwright.variables.container import define_common, define_comparisons
from graphwright.variables.dict_variable import DictVariable
from graphwright.variables.method_table import run_model
from graphwright.variables.set_variable import FROZENSET, SET, FrozenSetVariable, SetVariable, as_set


def _none(tx: Tx) -> VariableTracker:
    return tx.wrap(None)


def _items(tx: Tx, value: VariableTracker) -> list[VariableTracker]:
    value = value.realize()
    plain = as_set(tx, value)
    if plain is not None and plain.order is None and not plain.exact:
        return plain.unordered()
    return list(drain(tx, value.iterate(tx).realize()))


def operand(tx: Tx, value: VariableTracker) -> SetVariable:
    """Any iterable as a set variable, without a copy where it is one."""
    found = as_set(tx, value)
    return SetVariable.of(tx, _items(tx, value)) if found is None else found


def _mirrors(value: SetVariable) -> bool:
    return value.exact


def combine(tx: Tx, cls: type[SetVariable], op: Callable[[Any, Any], Any], a: SetVariable, b: SetVariable) -> SetVariable:
    """A new set by one of the set operators, run on the models."""
    result = cls(cls.cls(op(a.model, b.model)), {**b.members, **a.members})
    result.exact = _mirrors(a) and _mirrors(b)
    return result


def _kind(value: SetVariable) -> type[SetVariable]:
    return FrozenSetVariable if isinstance(value, FrozenSetVariable) else SetVariable


# ------------------------------------------------------------------ both kinds


def _both(*names: str, least: int = 0, most: int | None = None) -> Any:
    def enter(method: Any) -> Any:
        SET.define(*names, least=least, most=most)(method)
        return FROZENSET.define(*names, least=least, most=most)(method)

    return enter


@_both("__contains__", least=1)
def _contains(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(self.has(tx, args[0]))


@_both("copy", "__copy__")
def _copy(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    if isinstance(self, FrozenSetVariable):
        return self
    return copy_of(self)


def copy_of(self: SetVariable, cls: type[SetVariable] = SetVariable) -> SetVariable:
    """A copy that belongs to the traced program."""
    result = cls(cls.cls(self.model), dict(self.members))
    result.exact = self.exact
    return result


def _folding(name: str, op: Callable[[Any, Any], Any]) -> None:
    """A method that takes any number of iterables and gives a new set."""

    @_both(name, most=-1)
    def method(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        result = copy_of(self, _kind(self))
        for arg in args:
            other = operand(tx, arg)
            if name == "intersection" and as_set(tx, arg) is None:
                result = _kept(tx, result, _items(tx, arg))
            else:
                result = combine(tx, _kind(self), op, result, other)
        return result


def _kept(tx: Tx, self: SetVariable, items: list[VariableTracker]) -> SetVariable:
    """The items that are in a set, added in their own order: `intersection` with what is no set."""
    kept = SetVariable.new()
    for item in items:
        if self.has(tx, item):
            kept.add(tx, item)
    kept.exact = self.exact
    return kept if _kind(self) is SetVariable else copy_of(kept, FrozenSetVariable)


for _name, _op in (("union", operator.or_), ("intersection", operator.and_), ("difference", operator.sub)):
    _folding(_name, _op)


@_both("symmetric_difference", least=1)
def _symmetric_difference(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return combine(tx, _kind(self), operator.xor, self, operand(tx, args[0]))


@_both("isdisjoint", least=1)
def _isdisjoint(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(not any(self.has(tx, item) for item in _items(tx, args[0])))


@_both("issubset", least=1)
def _issubset(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(self.model <= operand(tx, args[0]).model)


@_both("issuperset", least=1)
def _issuperset(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(all(self.has(tx, item) for item in _items(tx, args[0])))


def _operator(name: str, op: Callable[[Any, Any], Any]) -> None:
    @_both(f"__{name}__", least=1)
    def forward(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        other = as_set(tx, args[0])
        return tx.wrap(NotImplemented) if other is None else combine(tx, _kind(self), op, self, other)

    @_both(f"__r{name}__", least=1)
    def reflected(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        other = as_set(tx, args[0])
        return tx.wrap(NotImplemented) if other is None else combine(tx, _kind(other), op, other, self)

    @SET.define(f"__i{name}__", least=1)
    def inplace(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        other = as_set(tx, args[0])
        if other is None:
            return tx.wrap(NotImplemented)
        _UPDATES[name](tx, self, other)
        return self


for _name, _op in (("and", operator.and_), ("or", operator.or_), ("sub", operator.sub), ("xor", operator.xor)):
    _operator(_name, _op)


def _compare(tx: Tx, op: Any, self: SetVariable, other: VariableTracker) -> VariableTracker | None:
    right = as_set(tx, other)
    return None if right is None else tx.wrap(op(self.model, right.model))


define_common(SET)
define_common(FROZENSET)
define_comparisons(SET, _compare)
define_comparisons(FROZENSET, _compare)


# ------------------------------------------------------------------ changing


@SET.define("add", least=1)
def _add(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    self.add(tx, args[0])
    return _none(tx)


@SET.define("discard", least=1)
def _discard(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    self.discard(tx, args[0])
    return _none(tx)


@SET.define("remove", least=1)
def _remove(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    if not self.discard(tx, args[0]):
        tx.raise_(KeyError, args[0].realize())
    return _none(tx)


@SET.define("pop")
def _pop(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    if self.source is not None and len(self.model) > 1:
        tx.graph_break(gb.MUTATION_OF_UNKNOWN, "pop of an outside set, whose choice depends on its history")
    self.changed(tx)
    return self.members[run_model(tx, self.model.pop)]


@SET.define("clear")
def _clear(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    self.changed(tx)
    self.model.clear()
    return _none(tx)


def _in_place(tx: Tx, self: SetVariable, other: SetVariable, op: Callable[[Any, Any], Any]) -> None:
    self.changed(tx)
    exact = self.exact and other.exact
    members = dict(other.members)
    self.model = op(self.model, other.model if other is not self else set(self.model))
    self.members = {**members, **self.members}
    self.exact = exact


def _update_with(tx: Tx, self: SetVariable, other: SetVariable) -> None:
    _in_place(tx, self, other, operator.ior)


def _intersect_with(tx: Tx, self: SetVariable, other: SetVariable) -> None:
    _in_place(tx, self, other, operator.iand)


def _subtract(tx: Tx, self: SetVariable, other: SetVariable) -> None:
    _in_place(tx, self, other, operator.isub)


def _toggle(tx: Tx, self: SetVariable, other: SetVariable) -> None:
    _in_place(tx, self, other, operator.ixor)


_UPDATES = {"or": _update_with, "and": _intersect_with, "sub": _subtract, "xor": _toggle}


@SET.define("update", most=-1)
def _update(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    for arg in args:
        other = as_set(tx, arg)
        if other is not None:
            _update_with(tx, self, other)
        elif isinstance(source := arg.realize(), DictVariable) and source.cls is dict:
            self.add_keys(tx, source)
        else:
            for item in drain(tx, arg.realize().iterate(tx).realize()):
                self.add(tx, item)
    return _none(tx)


@SET.define("difference_update", most=-1)
def _difference_update(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    for arg in args:
        other = as_set(tx, arg)
        if other is not None:
            _subtract(tx, self, other)
        else:
            for item in drain(tx, arg.realize().iterate(tx).realize()):
                self.discard(tx, item)
    return _none(tx)


@SET.define("intersection_update", most=-1)
def _intersection_update(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    result = self.call_method(tx, "intersection", args, {})
    assert isinstance(result, SetVariable)
    self.replace(tx, result)
    return _none(tx)


@SET.define("symmetric_difference_update", least=1)
def _symmetric_difference_update(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    _toggle(tx, self, operand(tx, args[0]))
    return _none(tx)


@SET.define("__init__", most=1)
def _init(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    _clear(tx, self, [], {})
    return _update(tx, self, args, {})
