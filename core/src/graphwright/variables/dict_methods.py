"""The methods of dicts, ordered dicts and dicts with defaults."""

from __future__ import annotations

import collections
import operator
from typing import Any

from graphwright.variables.base import Args, Kwargs, Tx, VariableTracker, drain
from graphwright.variables.comparison import equal
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.container import backing, define_common, define_comparisons
from graphwright.variables.dict_variable import DICT, DictVariable
from graphwright.variables.dict_views import DictViewVariable, MappingProxyVariable
from graphwright.variables.method_table import is_iterable_type, run_model, type_example, type_has
from graphwright.variables.tuple import TupleVariable


def _none(tx: Tx) -> VariableTracker:
    return tx.wrap(None)


# ------------------------------------------------------------------ one key


@DICT.define("__getitem__", least=1)
def _getitem(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    key = args[0].realize()
    found = self.lookup(tx, key)
    if found is not None:
        return found
    if self.on_missing is not None:
        return self.on_missing(tx, key)
    if self.cls is collections.defaultdict:
        return _missing(tx, self, [key], {})
    tx.raise_(KeyError, key)


@DICT.define("__missing__", least=1)
def _missing(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    factory = self.factory(tx)
    if factory is None:
        tx.raise_(KeyError, args[0].realize())
    value = tx.call(factory, [])
    self.store(tx, args[0], value)
    return value


@DICT.define("get", least=1, most=2)
def _get(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    found = self.lookup(tx, args[0])
    if found is not None:
        return found
    return args[1] if len(args) > 1 else _none(tx)


@DICT.define("__contains__", least=1)
def _contains(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(self.lookup(tx, args[0]) is not None)


@DICT.define("__setitem__", least=2)
def _setitem(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    self.store(tx, args[0], args[1])
    return _none(tx)


@DICT.define("__delitem__", least=1)
def _delitem(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    if self.remove(tx, args[0]) is None:
        tx.raise_(KeyError, args[0].realize())
    return _none(tx)


@DICT.define("setdefault", least=1, most=2, keywords=("key", "default"))
def _setdefault(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    found = self.lookup(tx, args[0])
    if found is not None:
        return found
    value = args[1] if len(args) > 1 else kwargs.get("default", _none(tx))
    self.store(tx, args[0], value)
    return value


@DICT.define("pop", least=1, most=2, keywords=("key", "default"))
def _pop(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    default = args[1] if len(args) > 1 else kwargs.get("default")
    found = self.remove(tx, args[0])
    if found is not None:
        return found
    if default is None:
        tx.raise_(KeyError, args[0].realize())
    return default


# ------------------------------------------------------------------ all keys


@DICT.define("keys")
def _keys(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return DictViewVariable(self, "keys")


@DICT.define("values")
def _values(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return DictViewVariable(self, "values")


@DICT.define("items")
def _items(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return DictViewVariable(self, "items")


@DICT.define("__reversed__")
def _reversed(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return self.entry_iterator(tx, type(reversed(self.cls())), lambda entry: entry.key, backwards=True)


@DICT.define("clear")
def _clear(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    self.clear(tx)
    return _none(tx)


@DICT.define("popitem", most=1, keywords=("last",))
def _popitem(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    self.complete(tx)
    ordered = issubclass(self.cls, collections.OrderedDict)
    if not ordered and (args or kwargs):
        run_model(tx, {}.popitem, *args, **kwargs)
    flag = args[0] if args else kwargs.get("last")
    last = flag is None or flag.realize().truth(tx)
    if not self.entries_by_key:
        run_model(tx, self.cls().popitem)
    index = next(reversed(self.entries_by_key) if last else iter(self.entries_by_key))
    stayed = index not in self.removed  # one that came back is not where it was in the outside dict
    entry = self.drop(tx, index)
    if not ordered and stayed and index in self.removed:
        self.popped.add(index)
    return TupleVariable([entry.key, entry.value])


@DICT.define("move_to_end", least=1, most=2, keywords=("key", "last"))
def _move_to_end(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    flag = args[1] if len(args) > 1 else kwargs.get("last")
    last = flag is None or flag.realize().truth(tx)
    self.complete(tx)
    key = args[0].realize()
    if self.lookup(tx, key) is None:
        tx.raise_(KeyError, key)
    self.move_to_end(tx, key.hash_key(tx), last=last)
    return _none(tx)


# ------------------------------------------------------------------ merging


def merge(tx: Tx, self: DictVariable, other: VariableTracker) -> None:
    """`dict.update(self, other)`: from a mapping, or from pairs."""
    other = other.realize()
    plain = backing(other, DictVariable)
    if plain is not None and (plain is other or not _overrides(other)):
        for entry in plain.all_entries(tx):
            self.store(tx, entry.key, entry.value)
    elif _has_keys(other):
        for key in other.call_method(tx, "keys", [], {}).realize().unpack(tx):
            self.store(tx, key, tx.call(tx.wrap(operator.getitem), [other, key]))
    else:
        _merge_pairs(tx, self, other)


def _overrides(value: VariableTracker) -> bool:
    """Whether a dict subclass iterates in its own way; Python then goes through its `keys`."""
    kind: Any = value.python_type()
    return kind.__iter__ not in (dict.__iter__, collections.OrderedDict.__iter__)


def _has_keys(value: VariableTracker) -> bool:
    return isinstance(value, MappingProxyVariable) or type_has(value.python_type(), "keys")


def _merge_pairs(tx: Tx, self: DictVariable, pairs: VariableTracker) -> None:
    for position, pair in enumerate(drain(tx, pairs.iterate(tx).realize())):
        pair = pair.realize()
        kind = pair.python_type()
        if not is_iterable_type(kind):
            _refuse_pair(tx, self, position, type_example(kind))
        items = pair.unpack(tx)
        if len(items) != 2:
            _refuse_pair(tx, self, position, [0] * len(items))
        self.store(tx, items[0], items[1])


def _refuse_pair(tx: Tx, self: DictVariable, position: int, pair: Any) -> None:
    """Let a real dict of the class refuse what comes as a pair at a position."""
    run_model(tx, self.cls().update, [*[(0, 0)] * position, pair])


@DICT.define("update", "__init__", most=1, keywords=("*",))
def _update(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    if args:
        merge(tx, self, args[0])
    for name, value in kwargs.items():
        self.store(tx, ConstantVariable(name), value)
    return _none(tx)


def copy_of(tx: Tx, source: DictVariable) -> DictVariable:
    """`source.copy()`: of the same class, with the same default factory."""
    result = DictVariable.new(source.cls, source.default_factory)
    if source.cls is collections.defaultdict:
        factory = source.factory(tx)
        result.default_factory = tx.wrap(None) if factory is None else factory
    for entry in source.all_entries(tx):
        result.store(tx, entry.key, entry.value)
    return result


@DICT.define("copy", "__copy__")
def _copy(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return copy_of(tx, self)


def _as_dict(value: VariableTracker) -> DictVariable | None:
    return backing(value, DictVariable)


@DICT.define("__or__", least=1)
def _or(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    if _as_dict(args[0]) is None:
        return tx.wrap(NotImplemented)
    result = copy_of(tx, self)
    merge(tx, result, args[0])
    return result


@DICT.define("__ror__", least=1)
def _ror(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    left = _as_dict(args[0])
    if left is None:
        return tx.wrap(NotImplemented)
    result = DictVariable.new(self.cls, self.factory(tx))
    merge(tx, result, args[0])
    merge(tx, result, self)
    return result


@DICT.define("__ior__", least=1)
def _ior(tx: Tx, self: DictVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    merge(tx, self, args[0])
    return self


# ------------------------------------------------------------------ comparison


def _compare(tx: Tx, op: Any, self: DictVariable, other: VariableTracker) -> VariableTracker | None:
    right = _as_dict(other)
    if right is None or op not in (operator.eq, operator.ne):
        return None
    ordered = issubclass(self.cls, collections.OrderedDict) and issubclass(right.cls, collections.OrderedDict)
    same = _same_content(tx, self, right) and (not ordered or _same_order(tx, self, right))
    return tx.wrap(same if op is operator.eq else not same)


def _same_content(tx: Tx, a: DictVariable, b: DictVariable) -> bool:
    if a is b:
        return True
    if a.size(tx) != b.size(tx):
        return False
    for entry in a.all_entries(tx):
        found = b.lookup(tx, entry.key)
        if found is None or not equal(tx, entry.value, found):
            return False
    return True


def _same_order(tx: Tx, a: DictVariable, b: DictVariable) -> bool:
    return all(equal(tx, x, y) for x, y in zip(a.unpack(tx), b.unpack(tx), strict=True))


define_common(DICT)
define_comparisons(DICT, _compare)
