"""Double-ended queues."""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable, Iterable
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.sources import Source
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker, drain
from graphwright.variables.comparison import compare_sequences, equal, find
from graphwright.variables.container import (
    ContainerVariable,
    Leaf,
    backing,
    define_common,
    define_comparisons,
    emit_call,
    shadow_of,
)
from graphwright.variables.iterator import CheckedIterator
from graphwright.variables.list import index_in
from graphwright.variables.method_table import MethodTable, index_value, run_model
from graphwright.variables.standin import Probe

DEQUE = MethodTable(collections.deque)


class DequeVariable(ContainerVariable):
    """A deque: `items` is a real deque of variables, so that `maxlen` works by itself."""

    methods = DEQUE
    cls = collections.deque

    def __init__(
        self, items: Iterable[VariableTracker], source: Source | None = None, maxlen: int | None = None
    ) -> None:
        self.items: collections.deque[VariableTracker] = collections.deque(items, maxlen)
        self.source = source
        self.changes = 0

    @classmethod
    def outside(cls, tx: Tx, value: collections.deque[Any], source: Source) -> DequeVariable:
        """The variable of a deque that came from outside: length and `maxlen` are guarded, items are lazy."""
        tx.capture.guards.add(source, "len", len(value))
        tx.capture.guards.add(source.attr("maxlen"), "eq", value.maxlen)
        items = [tx.lazy(v, source.child("item", i)) for i, v in enumerate(collections.deque.__iter__(value))]
        return cls(items, source, value.maxlen)

    def size(self, tx: Tx) -> int:
        return len(self.items)

    def changed(self, tx: Tx) -> None:
        """Note that the content is about to change."""
        tx.capture.effects.mutate(self)
        self.changes += 1

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        return tx.wrap(self.items.maxlen) if name == "maxlen" else super().getattr(tx, name)

    def _iterator(self, make: Callable[..., Any], items: list[VariableTracker], kind: type) -> VariableTracker:
        changes = self.changes

        def check(tx: Tx, position: int) -> None:
            if self.changes != changes:
                tx.raise_(RuntimeError, "deque mutated during iteration")

        again = (make, self, lambda: self.changes == changes)
        return CheckedIterator(items.__getitem__, len(items), kind, check, again)

    def iterate(self, tx: Tx) -> VariableTracker:
        return self._iterator(iter, list(self.items), type(iter(collections.deque())))

    def reverse_iterate(self, tx: Tx) -> VariableTracker:
        """`reversed(self)`."""
        return self._iterator(reversed, list(self.items)[::-1], type(reversed(collections.deque())))

    def unpack(self, tx: Tx) -> list[VariableTracker]:
        return list(self.items)

    def shadow(self, tx: Tx, leaf: Leaf, memo: dict[int, Any]) -> Any:
        result = memo[id(self)] = collections.deque[Any](maxlen=self.items.maxlen)
        result.extend(shadow_of(tx, item, leaf, memo) for item in self.items)
        return result

    # ---------------------------------------------------------- codegen

    def _emit_list(self, emit: Emitter) -> None:
        for item in self.items:
            emit(item)
        emit.op("build_list", len(self.items))

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(collections.deque)
        emit.op("build_tuple", 0)
        emit.load_constant(self.items.maxlen)
        emit.op("call", 2)
        emit.remember(self)
        if self.items:
            emit.op("copy", 1)
            emit.op("load_attr", "extend")
            self._emit_list(emit)
            emit.op("call", 1)
            emit.op("pop_top")

    def replay(self, emit: Emitter) -> None:
        source = self.source
        assert source is not None
        # The new content is on the stack before the old one goes: it may be read from the deque.
        emit_call(
            emit,
            _replace_content,
            lambda: emit.load_source(source),
            lambda: self._emit_list(emit),
        )


def _replace_content(real: collections.deque[Any], items: list[Any]) -> None:
    collections.deque.clear(real)
    collections.deque.extend(real, items)


def _none(tx: Tx) -> VariableTracker:
    return tx.wrap(None)


# ------------------------------------------------------------------ methods


def _passing_items(name: str, least: int) -> None:
    """A method that takes items or nothing, and works on the model as it does on a deque."""

    @DEQUE.define(name, least=least)
    def method(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        self.changed(tx)
        result = run_model(tx, getattr(self.items, name), *args)
        return _none(tx) if result is None else result


for _name, _least in (("append", 1), ("appendleft", 1), ("pop", 0), ("popleft", 0), ("clear", 0), ("reverse", 0)):
    _passing_items(_name, _least)


@DEQUE.define("rotate", most=1)
def _rotate(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    steps = [index_value(tx, a) for a in args]
    self.changed(tx)
    run_model(tx, self.items.rotate, *steps)
    return _none(tx)


@DEQUE.define("insert", least=2)
def _insert(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    position = index_value(tx, args[0])
    self.changed(tx)
    run_model(tx, self.items.insert, position, args[1])
    return _none(tx)


def _add_each(tx: Tx, self: DequeVariable, values: VariableTracker, *, left: bool = False) -> None:
    values = values.realize()
    items = iter(list(self.items)) if values is self else drain(tx, values.iterate(tx).realize())
    for item in items:
        self.changed(tx)
        if left:
            self.items.appendleft(item)
        else:
            self.items.append(item)


@DEQUE.define("extend", least=1)
def _extend(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    _add_each(tx, self, args[0])
    return _none(tx)


@DEQUE.define("extendleft", least=1)
def _extendleft(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    _add_each(tx, self, args[0], left=True)
    return _none(tx)


@DEQUE.define("__iadd__", least=1)
def _iadd(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    _add_each(tx, self, args[0])
    return self


@DEQUE.define("__init__", most=2, keywords=("iterable", "maxlen"))
def _init(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    iterable = args[0] if args else kwargs.get("iterable")
    limit = args[1] if len(args) > 1 else kwargs.get("maxlen")
    maxlen = None if limit is None else index_value(tx, limit)
    if self.source is not None and maxlen != self.items.maxlen:
        tx.graph_break(gb.MUTATION_OF_UNKNOWN, "changing the maxlen of a deque")
    self.changed(tx)
    self.items = run_model(tx, collections.deque, (), maxlen)
    if iterable is not None:
        _add_each(tx, self, iterable)
    return _none(tx)


@DEQUE.define("remove", least=1)
def _remove(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    position = find(tx, list(self.items), args[0])
    if position < 0:
        run_model(tx, collections.deque[Any]().remove, Probe(tx, args[0]))
    self.changed(tx)
    del self.items[position]
    return _none(tx)


@DEQUE.define("index", least=1, most=3)
def _index(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(index_in(tx, self.items, collections.deque, args))


@DEQUE.define("count", least=1)
def _count(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(sum(equal(tx, item, args[0]) for item in list(self.items)))


@DEQUE.define("copy", "__copy__")
def _copy(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return DequeVariable(self.items, maxlen=self.items.maxlen)


@DEQUE.define("__getitem__", least=1)
def _getitem(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    found: VariableTracker = run_model(tx, operator.getitem, self.items, index_value(tx, args[0]))
    return found


@DEQUE.define("__setitem__", least=2)
def _setitem(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    position = index_value(tx, args[0])
    tx.capture.effects.mutate(self)
    run_model(tx, operator.setitem, self.items, position, args[1])
    return _none(tx)


@DEQUE.define("__delitem__", least=1)
def _delitem(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    position = index_value(tx, args[0])
    self.changed(tx)
    run_model(tx, operator.delitem, self.items, position)
    return _none(tx)


@DEQUE.define("__contains__", least=1)
def _contains(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(find(tx, list(self.items), args[0]) >= 0)


@DEQUE.define("__add__", least=1)
def _add(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    other = backing(args[0], DequeVariable)
    if other is None:
        tx.raise_(TypeError, f'can only concatenate deque (not "{args[0].realize().type_name()}") to deque')
    return DequeVariable([*self.items, *other.items], maxlen=self.items.maxlen)


@DEQUE.define("__mul__", "__rmul__", least=1)
def _mul(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return DequeVariable(run_model(tx, operator.mul, self.items, index_value(tx, args[0])), maxlen=self.items.maxlen)


@DEQUE.define("__imul__", least=1)
def _imul(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    times = index_value(tx, args[0])
    self.changed(tx)
    self.items = run_model(tx, operator.imul, self.items, times)
    return self


@DEQUE.define("__reversed__")
def _reversed(tx: Tx, self: DequeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return self.reverse_iterate(tx)


def _compare(tx: Tx, op: Any, self: DequeVariable, other: VariableTracker) -> VariableTracker | None:
    right = backing(other, DequeVariable)
    if right is None:
        return None
    return compare_sequences(tx, op, list(self.items), list(right.items), length_decides=True)


define_common(DEQUE)
define_comparisons(DEQUE, _compare)
