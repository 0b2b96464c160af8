"""Lists."""

from __future__ import annotations

import operator
from typing import Any

from graphwright.exc import ObservedException
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
    holds_others,
    shadow_of,
)
from graphwright.variables.finalizers import let_go
from graphwright.variables.iterator import LiveIterator
from graphwright.variables.method_table import MethodTable, index_value, is_iterable_type, run_model
from graphwright.variables.ranges import SliceVariable, slice_value
from graphwright.variables.sorting import sorted_items
from graphwright.variables.standin import Probe

LIST = MethodTable(list)


class ListVariable(ContainerVariable):
    """A list. `items` is the list as the traced program has it now; items may be lazy."""

    methods = LIST
    cls = list

    def __init__(self, items: list[VariableTracker], source: Source | None = None) -> None:
        self.items = items
        self.source = source
        self._at_entry = tuple(items) if source is not None else ()

    @classmethod
    def outside(cls, tx: Tx, value: list[Any], source: Source) -> ListVariable:
        """The variable of a list that came from outside: its length is guarded, its items are lazy."""
        tx.capture.guards.add(source, "len", list.__len__(value))
        return cls([tx.lazy(item, source.index(i)) for i, item in enumerate(list.__iter__(value))], source)

    def size(self, tx: Tx) -> int:
        return len(self.items)

    def as_proxy(self) -> Any:
        return [item.realize().as_proxy() for item in self.items]

    def iterate(self, tx: Tx) -> VariableTracker:
        return LiveIterator(self, lambda: self.items, type(iter([])))

    def unpack(self, tx: Tx) -> list[VariableTracker]:
        return list(self.items)

    def shadow(self, tx: Tx, leaf: Leaf, memo: dict[int, Any]) -> Any:
        result = memo[id(self)] = list[Any]()
        result.extend(shadow_of(tx, item, leaf, memo) for item in self.items)
        return result

    # ---------------------------------------------------------- codegen

    def release(self) -> None:
        self.items = []

    def reconstruct(self, emit: Emitter) -> None:
        if not holds_others(self.items):
            self._emit_items(emit, self.items)
            return
        emit.op("build_list", 0)
        emit.remember(self)
        self._emit_items(emit, self.items)
        emit.op("list_extend")

    def _emit_items(self, emit: Emitter, items: list[VariableTracker]) -> None:
        for item in items:
            emit(item)
        emit.op("build_list", len(items))

    def replay(self, emit: Emitter) -> None:
        assert self.source is not None
        source, kept = self.source, len(self._at_entry)
        if len(self.items) >= kept and all(map(operator.is_, self.items, self._at_entry)):
            added = self.items[kept:]
            if added:
                emit_call(emit, list.extend, lambda: emit.load_source(source), lambda: self._emit_items(emit, added))
            return
        emit_call(
            emit,
            list.__setitem__,
            lambda: emit.load_source(source),
            lambda: emit.load_constant(slice(None)),
            lambda: self._emit_items(emit, self.items),
        )

    def __repr__(self) -> str:
        return f"<list of {len(self.items)}{' from ' + str(self.source) if self.source is not None else ''}>"


def position_of(tx: Tx, key: VariableTracker) -> Any:
    """A subscript as Python's own: a number or a slice of numbers."""
    key = key.realize()
    return slice_value(tx, key) if isinstance(key, SliceVariable) else index_value(tx, key)


def _changed(tx: Tx, self: ListVariable) -> None:
    tx.capture.effects.mutate(self)


def _lets_go(tx: Tx, self: ListVariable) -> None:
    """Note that the list is about to lose items, whichever."""
    for item in self.items:
        let_go(tx, item)
    _changed(tx, self)


def _none(tx: Tx) -> VariableTracker:
    return tx.wrap(None)


# ------------------------------------------------------------------ reading


@LIST.define("__getitem__", least=1)
def _getitem(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    found = run_model(tx, operator.getitem, self.items, position_of(tx, args[0]))
    return ListVariable(found) if isinstance(found, list) else found


@LIST.define("__contains__", least=1)
def _contains(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(find(tx, self.items, args[0]) >= 0)


@LIST.define("count", least=1)
def _count(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(sum(equal(tx, item, args[0]) for item in self.items))


@LIST.define("index", least=1, most=3)
def _index(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(index_in(tx, self.items, list, args))


def index_in(tx: Tx, items: Any, cls: type, args: Args) -> int:
    """`index(value, start, stop)` of lists, tuples and deques, by Python's own search."""
    wanted, *bounds = args
    numbers = [index_value(tx, b) for b in bounds]
    model = cls(Probe(tx, item) for item in items)
    position: int = run_model(tx, model.index, Probe(tx, wanted), *numbers)
    return position


# ------------------------------------------------------------------ changing


@LIST.define("append", least=1)
def _append(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    _changed(tx, self)
    self.items.append(args[0])
    return _none(tx)


@LIST.define("extend", least=1)
def _extend(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    extend(tx, self, args[0])
    return _none(tx)


def extend(tx: Tx, self: ListVariable, values: VariableTracker) -> None:
    """Append what an iterable gives, one by one: what came before an exception stays."""
    values = values.realize()
    if isinstance(values, ContainerVariable):
        _changed(tx, self)
        self.items.extend(values.unpack(tx))
        return
    iterator = values.iterate(tx).realize()
    _changed(tx, self)
    for item in drain(tx, iterator):
        self.items.append(item)


@LIST.define("__iadd__", least=1)
def _iadd(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    extend(tx, self, args[0])
    return self


@LIST.define("insert", least=2)
def _insert(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    _changed(tx, self)
    run_model(tx, self.items.insert, index_value(tx, args[0]), args[1])
    return _none(tx)


@LIST.define("pop", most=1)
def _pop(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    index = [index_value(tx, a) for a in args]
    _lets_go(tx, self)
    found: VariableTracker = run_model(tx, self.items.pop, *index)
    return found


@LIST.define("remove", least=1)
def _remove(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    position = find(tx, self.items, args[0])
    if position < 0:
        run_model(tx, list[Any]().remove, Probe(tx, args[0]))
    _lets_go(tx, self)
    del self.items[position]
    return _none(tx)


@LIST.define("clear")
def _clear(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    _lets_go(tx, self)
    self.items.clear()
    return _none(tx)


@LIST.define("reverse")
def _reverse(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    _changed(tx, self)
    self.items.reverse()
    return _none(tx)


@LIST.define("copy")
def _copy(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return ListVariable(list(self.items))


@LIST.define("sort", keywords=("key", "reverse"))
def _sort(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    """CPython empties the list while it sorts, and notices what a key or a comparison does to it.

    Source: `list_sort_impl` in Objects/listobject.c.
    """
    _changed(tx, self)
    items = list(self.items)
    self.items.clear()
    try:
        ordered = sorted_items(tx, items, kwargs.get("key"), kwargs.get("reverse"))
    except ObservedException:
        self.items[:] = items
        raise
    is_changed = bool(self.items)
    self.items[:] = ordered
    if is_changed:
        tx.raise_(ValueError, "list modified during sort")
    return _none(tx)


@LIST.define("__setitem__", least=2)
def _setitem(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    position = position_of(tx, args[0])
    value: Any = args[1]
    if isinstance(position, slice):
        value = _assigned(tx, args[1], position)
    _lets_go(tx, self)
    run_model(tx, operator.setitem, self.items, position, value)
    return _none(tx)


def _assigned(tx: Tx, values: VariableTracker, position: slice) -> list[VariableTracker]:
    """What is assigned to a slice."""
    values = values.realize()
    if not is_iterable_type(values.python_type()):
        run_model(tx, operator.setitem, [], position, object())
    return values.unpack(tx)


@LIST.define("__delitem__", least=1)
def _delitem(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    position = position_of(tx, args[0])
    _lets_go(tx, self)
    run_model(tx, operator.delitem, self.items, position)
    return _none(tx)


@LIST.define("__init__", most=1)
def _init(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    _clear(tx, self, [], {})
    if args:
        extend(tx, self, args[0])
    return _none(tx)


# ------------------------------------------------------------------ operators


@LIST.define("__add__", least=1)
def _add(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    other = backing(args[0], ListVariable)
    if other is None:
        tx.raise_(TypeError, f'can only concatenate list (not "{args[0].realize().type_name()}") to list')
    return ListVariable([*self.items, *other.items])


@LIST.define("__mul__", "__rmul__", least=1)
def _mul(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return ListVariable(run_model(tx, operator.mul, self.items, index_value(tx, args[0])))


@LIST.define("__imul__", least=1)
def _imul(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    times = index_value(tx, args[0])
    _changed(tx, self)
    self.items[:] = run_model(tx, operator.mul, self.items, times)
    return self


@LIST.define("__reversed__")
def _reversed(tx: Tx, self: ListVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return LiveIterator(self, lambda: self.items, type(reversed([])), step=-1)


def _compare(tx: Tx, op: Any, self: ListVariable, other: VariableTracker) -> VariableTracker | None:
    right = backing(other, ListVariable)
    if right is None:
        return None
    return compare_sequences(tx, op, self.items, right.items, length_decides=True)


define_common(LIST)
define_comparisons(LIST, _compare)
