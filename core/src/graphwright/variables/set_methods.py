"""The methods of sets and frozen sets."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.variables.base import Args, Kwargs, Tx, VariableTracker, drain
from graphwright.variables.container import define_common, define_comparisons
from graphwright.variables.dict_variable import DictVariable
from graphwright.variables.method_table import Method, run_model
from graphwright.variables.set_variable import FROZENSET, SET, FrozenSetVariable, SetVariable, as_set


def _none(tx: Tx) -> VariableTracker:
    return tx.wrap(None)


@dataclass(slots=True)
class Operand:
    """An iterable that a set method is given, as Python's own set methods on models can take it.

    Attributes:
        raw: the model of a set, a dict of hash keys for an exact dict, a list of hash keys for anything else; CPython
            treats the three differently, which shows in the order of results.
        members: the variables by hash key.
        exact: whether it iterates as the real one would.
    """

    raw: Any
    members: dict[Any, VariableTracker]
    exact: bool = True


def operand(tx: Tx, value: VariableTracker) -> Operand:
    """Any iterable, ready for a set method."""
    value = value.realize()
    found = as_set(tx, value)
    if found is not None:
        return Operand(found.model, found.members, found.exact)
    items = [item.realize() for item in drain(tx, value.iterate(tx).realize())]
    keys = [item.hash_key(tx) for item in items]
    members: dict[Any, VariableTracker] = {}
    for key, item in zip(keys, items, strict=True):
        members.setdefault(key, item)
    if isinstance(value, DictVariable) and value.cls is dict:
        return Operand(dict.fromkeys(keys), members)
    return Operand(keys, members)


def _merged(first: dict[Any, VariableTracker], *others: dict[Any, VariableTracker]) -> dict[Any, VariableTracker]:
    """Members of several sets, in the order they come in; of equal items the first is kept."""
    result = dict(first)
    for other in others:
        for key, item in other.items():
            result.setdefault(key, item)
    return result


def combine(cls: type[SetVariable], fn: Callable[..., Any], first: SetVariable, *others: Operand) -> SetVariable:
    """A new set by a set method or operator, run on the models."""
    model = fn(first.model, *(o.raw for o in others))
    result = cls(model, _merged(first.members, *(o.members for o in others)))
    result.exact = first.exact and all(o.exact for o in others)
    return result


def _kind(value: SetVariable) -> type[SetVariable]:
    return FrozenSetVariable if isinstance(value, FrozenSetVariable) else SetVariable


# ------------------------------------------------------------------ both kinds


def _both(*names: str, least: int = 0, most: int | None = None) -> Callable[[Method], Method]:
    def enter(method: Method) -> Method:
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


def _new_set(name: str, least: int, most: int) -> None:
    """A method that takes iterables and gives a new set."""

    @_both(name, least=least, most=most)
    def method(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        kind = _kind(self)
        return combine(kind, getattr(kind.cls, name), self, *(operand(tx, arg) for arg in args))


for _name in ("union", "intersection", "difference"):
    _new_set(_name, 0, -1)
_new_set("symmetric_difference", 1, 1)


@_both("isdisjoint", least=1)
def _isdisjoint(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    for key in operand(tx, args[0]).raw:
        if key in self.model:
            return tx.wrap(False)
    return tx.wrap(True)


@_both("issubset", least=1)
def _issubset(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(self.model.issubset(operand(tx, args[0]).raw))


@_both("issuperset", least=1)
def _issuperset(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(self.model.issuperset(operand(tx, args[0]).raw))


def _operator(name: str, op: Callable[[Any, Any], Any], inplace: Callable[[Any, Any], Any]) -> None:
    @_both(f"__{name}__", least=1)
    def forward(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        other = as_set(tx, args[0])
        return tx.wrap(NotImplemented) if other is None else combine(_kind(self), op, self, operand(tx, other))

    @_both(f"__r{name}__", least=1)
    def reflected(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        other = as_set(tx, args[0])
        return tx.wrap(NotImplemented) if other is None else combine(_kind(other), op, other, operand(tx, self))

    @SET.define(f"__i{name}__", least=1)
    def update(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        other = as_set(tx, args[0])
        if other is None:
            return tx.wrap(NotImplemented)
        _change(tx, self, inplace, operand(tx, other))
        return self


_operator("and", operator.and_, operator.iand)
_operator("or", operator.or_, operator.ior)
_operator("sub", operator.sub, operator.isub)
_operator("xor", operator.xor, operator.ixor)


def _change(tx: Tx, self: SetVariable, fn: Callable[..., Any], *others: Operand) -> None:
    """Run an operator or method that changes the set on its model."""
    exact = all(o.exact for o in others)
    itself = [o.members is self.members for o in others]
    found = _merged({}, *(o.members for o in others))

    def run(model: Any) -> Any:
        return fn(model, *(model if same else o.raw for same, o in zip(itself, others, strict=True)))

    self.change(tx, run, found)
    self.exact = self.exact and exact


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
    key = run_model(tx, self.model.pop)
    self.log.append((key, False))
    return self.members[key]


@SET.define("clear")
def _clear(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    self.change(tx, set.clear, {})
    return _none(tx)


@SET.define("update", most=-1)
def _update(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    for arg in args:
        value = arg.realize()
        if as_set(tx, value) is not None or (isinstance(value, DictVariable) and value.cls is dict):
            _change(tx, self, set.update, operand(tx, value))
        else:
            for item in drain(tx, value.iterate(tx).realize()):
                self.add(tx, item)
    return _none(tx)


@SET.define("difference_update", most=-1)
def _difference_update(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    for arg in args:
        value = arg.realize()
        if as_set(tx, value) is not None:
            _change(tx, self, set.difference_update, operand(tx, value))
        else:
            for item in drain(tx, value.iterate(tx).realize()):
                self.discard(tx, item)
    return _none(tx)


@SET.define("intersection_update", most=-1)
def _intersection_update(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    _change(tx, self, set.intersection_update, *(operand(tx, arg) for arg in args))
    return _none(tx)


@SET.define("symmetric_difference_update", least=1)
def _symmetric_difference_update(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    _change(tx, self, set.symmetric_difference_update, operand(tx, args[0]))
    return _none(tx)


@SET.define("__init__", most=1)
def _init(tx: Tx, self: SetVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    _clear(tx, self, [], {})
    return _update(tx, self, list(args), {})
