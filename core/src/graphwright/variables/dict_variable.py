"""Dicts: plain, ordered, with defaults; those from outside are looked into one key at a time."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Self

import graphwright.graph_breaks as gb
from graphwright.sources import Source
from graphwright.trust import is_trusted_class
from graphwright.variables.base import Emitter, Tx, VariableTracker, is_the
from graphwright.variables.constant import is_literal
from graphwright.variables.container import ContainerVariable, Leaf, emit_call, shadow_of
from graphwright.variables.finalizers import break_for_type, let_go, runs_code_at_end
from graphwright.variables.iterator import CheckedIterator
from graphwright.variables.method_table import MethodTable, MethodVariable

Key = Any
MISSING = object()
DICT = MethodTable(dict)
"""The methods of dicts; entered by `graphwright.variables.dict_methods`."""


@dataclass(slots=True)
class Entry:
    """One key of a dict with its value, as variables."""

    key: VariableTracker
    value: VariableTracker


class DictVariable(ContainerVariable):
    """A dict, an OrderedDict or a defaultdict.

    One made inside knows all its entries. One from outside holds the real dict and is *incomplete* at first: each key
    that is asked for gets a guard of its own, and `complete` guards all keys at once for what needs them.

    Attributes:
        entries_by_key: entries as the traced program has them now, by hash key; in order once complete.
        real: the outside dict as it is at entry, or None.
        at_entry: whether the outside dict has a key at entry, for the hash keys where that is known and guarded.
        removed: keys of the outside dict that have been removed at some time, by hash key.
        written: hash keys stored into an outside dict, in the order in which Python inserts them.
        on_missing: called for an absent key by `d[key]`, as `__missing__` of a subclass.
    """

    methods = DICT

    def __init__(self, cls: type = dict, default_factory: VariableTracker | None = None) -> None:
        self.cls = cls
        self.default_factory = default_factory
        self.entries_by_key: dict[Key, Entry] = {}
        self.real: Any = None
        self.at_entry: dict[Key, bool] = {}
        self.removed: dict[Key, VariableTracker] = {}
        self.written: dict[Key, None] = {}
        self.on_missing: Callable[[Tx, VariableTracker], VariableTracker] | None = None
        self.is_complete = True
        self.rebuild = False
        """Whether the outside dict has been cleared."""
        self.reordered = False
        """Whether keys of an outside OrderedDict have been moved."""
        self.popped: set[Key] = set()
        """Those of `removed` that `popitem` took from the end."""
        self._is_silent = False
        """Whether asking for a key of the outside dict is known to run no code of the program."""
        self.changes = 0
        """How often keys have come or gone, for iterators."""

    @classmethod
    def new(cls, kind: type = dict, default_factory: VariableTracker | None = None) -> Self:
        """An empty dict made by the traced program."""
        return cls(kind, default_factory)

    @classmethod
    def outside(cls, value: Any, source: Source, kind: type | None = None) -> Self:
        """The variable of a dict that came from outside.

        Args:
            value: the dict; an object of a subclass where the variable is that object's storage.
            source: where it came from.
            kind: the builtin class whose methods it has; its own type when left out.
        """
        self = cls(kind or type(value))
        self.real, self.source, self.is_complete = value, source, False
        return self

    def release(self) -> None:
        self.entries_by_key = {}

    # ---------------------------------------------------------- keys one by one

    def lookup(self, tx: Tx, key: Any) -> VariableTracker | None:
        """The value of a key (a variable or a constant), or None where the dict lacks it."""
        vt = self._key_variable(tx, key)
        entry = self._find(tx, vt, self._hash_key(tx, vt))
        return None if entry is None else entry.value

    def _key_variable(self, tx: Tx, key: Any) -> VariableTracker:
        return key.realize() if isinstance(key, VariableTracker) else tx.wrap(key)

    def _hash_key(self, tx: Tx, key: VariableTracker) -> Key:
        return key.hash_key(tx)

    def _find(self, tx: Tx, key: VariableTracker, index: Key) -> Entry | None:
        found = self.entries_by_key.get(index)
        if found is not None or self.is_complete or index in self.removed:
            return found
        if not self._was_at_entry(tx, key, index):
            return None
        if index not in self.entries_by_key:
            assert self.source is not None
            constant = key.as_python_constant()
            value = tx.lazy(self._real_get(constant), self.source.dict_item(constant))
            self.entries_by_key[index] = Entry(key, value)
        return self.entries_by_key[index]

    def _was_at_entry(self, tx: Tx, key: VariableTracker, index: Key) -> bool:
        """Whether the outside dict has a key at entry; guarded."""
        if not self.is_complete and index not in self.at_entry:
            if key.is_python_constant() and is_literal(key.as_python_constant()):
                self._ask_for(tx, key.as_python_constant(), index)
            else:
                self.complete(tx)
        return self.at_entry.get(index, False)

    def _ask_for(self, tx: Tx, key: Any, index: Key) -> None:
        assert self.source is not None
        if not self._is_silent:
            self._is_silent = all(map(_is_silent, self.real))
            if not self._is_silent:  # and it may change the dict
                tx.graph_break(gb.UNKNOWN_COMPARISON, "looking into a dict with keys that are compared by Python code")
        self.at_entry[index] = self._real_get(key) is not MISSING
        if self.at_entry[index]:
            tx.capture.guards.touch(self.source.dict_item(key))
        else:
            tx.capture.guards.add(self.source, "dict_lacks", key)

    def _real_get(self, key: Any) -> Any:
        return dict.__getitem__(self.real, key) if dict.__contains__(self.real, key) else MISSING

    def store(self, tx: Tx, key: Any, value: VariableTracker) -> None:
        """`dict.__setitem__`; no guard on whether the key was there."""
        vt = self._key_variable(tx, key)
        index = self._hash_key(tx, vt)
        self._let_go(tx, vt, index)
        tx.capture.effects.mutate(self)
        entry = self.entries_by_key.get(index)
        if entry is not None:
            entry.value = value
        else:
            self.entries_by_key[index] = Entry(vt, value)
            self.changes += 1
        if self.source is not None:
            self.written.setdefault(index)

    def _let_go(self, tx: Tx, key: VariableTracker, index: Key) -> None:
        """Note that the value of a key is about to be replaced, without a guard on whether the key is there."""
        entry = self.entries_by_key.get(index)
        if entry is not None:
            let_go(tx, entry.value)
        elif not self.is_complete and index not in self.removed and key.is_python_constant():
            replaced = self._real_get(key.as_python_constant())
            if runs_code_at_end(replaced):
                break_for_type(tx, type(replaced))

    def remove(self, tx: Tx, key: Any) -> VariableTracker | None:
        """Take a key out; its value, or None where the dict lacks it."""
        vt = self._key_variable(tx, key)
        index = self._hash_key(tx, vt)
        entry = self._find(tx, vt, index)
        if entry is None:
            return None
        self.drop(tx, index)
        return entry.value

    def drop(self, tx: Tx, index: Key) -> Entry:
        """Take out an entry that is there, by its hash key."""
        let_go(tx, self.entries_by_key[index].key)
        let_go(tx, self.entries_by_key[index].value)
        tx.capture.effects.mutate(self)
        if self.source is not None:
            if self._was_at_entry(tx, self.entries_by_key[index].key, index):
                self.removed[index] = self.entries_by_key[index].key
            self.written.pop(index, None)
        self.changes += 1
        return self.entries_by_key.pop(index)

    # ---------------------------------------------------------- all keys

    def complete(self, tx: Tx) -> None:
        """Guard all keys of an outside dict and their order, and load the rest."""
        if self.is_complete:
            return
        assert self.source is not None
        keys = list(self._real_keys())
        tx.capture.guards.add(self.source, "keys", tuple(keys))
        self.is_complete = True
        known, self.entries_by_key = self.entries_by_key, {}
        self.at_entry.clear()
        for position, key in enumerate(keys):
            vt = self._outside_key(tx, key, position)
            index = self._hash_key(tx, vt)
            self.at_entry[index] = True
            if index in self.removed:
                continue
            entry = known.pop(index, None)
            value = entry.value if entry is not None else self._outside_value(tx, key, position)
            self.entries_by_key[index] = Entry(vt, value)
        self.entries_by_key.update((i, known[i]) for i in self.written if i in known)

    def _real_keys(self) -> Iterator[Any]:
        if isinstance(self.real, collections.OrderedDict):
            return collections.OrderedDict.__iter__(self.real)
        return dict.__iter__(self.real)

    def _outside_key(self, tx: Tx, key: Any, position: int) -> VariableTracker:
        assert self.source is not None
        if is_literal(key):
            return tx.wrap(key)
        return tx.wrap(key, self.source.dict_key(position)).realize()

    def _outside_value(self, tx: Tx, key: Any, position: int) -> VariableTracker:
        assert self.source is not None
        return tx.lazy(dict.__getitem__(self.real, key), self.source.dict_item(key))

    def entries(self) -> Iterator[tuple[VariableTracker, VariableTracker]]:
        """Keys and values known so far; all of them, in order, once complete."""
        return iter([(e.key, e.value) for e in self.entries_by_key.values()])

    def all_entries(self, tx: Tx) -> list[Entry]:
        """All entries in order."""
        self.complete(tx)
        return list(self.entries_by_key.values())

    def move_to_end(self, tx: Tx, index: Key, *, last: bool) -> None:
        """Reorder an OrderedDict that is complete."""
        tx.capture.effects.mutate(self)
        entry = self.entries_by_key.pop(index)
        if last:
            self.entries_by_key[index] = entry
        else:
            self.entries_by_key = {index: entry, **self.entries_by_key}
        self.reordered = True
        self.changes += 1

    def clear(self, tx: Tx) -> None:
        """Take all keys out; needs no guard on what they are."""
        for entry in self.entries_by_key.values():
            let_go(tx, entry.key)
            let_go(tx, entry.value)
        held = () if self.is_complete else (*dict.keys(self.real), *dict.values(self.real))
        for value in filter(runs_code_at_end, held):
            break_for_type(tx, type(value))
        tx.capture.effects.mutate(self)
        self.entries_by_key.clear()
        self.written.clear()
        self.is_complete = self.rebuild = True
        self.changes += 1

    # ---------------------------------------------------------- data model

    def size(self, tx: Tx) -> int:
        self.complete(tx)
        return len(self.entries_by_key)

    def truth(self, tx: Tx) -> bool:
        return self.size(tx) > 0

    def iterate(self, tx: Tx) -> VariableTracker:
        return self.entry_iterator(tx, type(iter(self.cls())), _key_of)

    def entry_iterator(
        self,
        tx: Tx,
        kind: type,
        pick: Callable[[Entry], VariableTracker],
        *,
        of: VariableTracker | None = None,
        backwards: bool = False,
    ) -> VariableTracker:
        """An iterator over keys, values or items that refuses to go on when keys come or go.

        Args:
            of: what is iterated, where that is a view of the dict.
        """
        entries = self.all_entries(tx)
        if backwards:
            entries.reverse()
        changes, count, ordered = self.changes, len(entries), issubclass(self.cls, collections.OrderedDict)

        def check(tx: Tx, position: int) -> None:
            if self.changes == changes or (ordered and position >= count):
                return
            if ordered:
                tx.raise_(RuntimeError, "OrderedDict mutated during iteration")
            if len(self.entries_by_key) != count:
                tx.raise_(RuntimeError, "dictionary changed size during iteration")
            tx.graph_break(gb.MUTATION_OF_UNKNOWN, "keys of a dict replaced while it is iterated")

        again = (reversed if backwards else iter, of or self, lambda: self.changes == changes)
        return CheckedIterator(lambda i: pick(entries[i]), count, kind, check, again)

    def unpack(self, tx: Tx) -> list[VariableTracker]:
        return [entry.key for entry in self.all_entries(tx)]

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name == "default_factory" and self.cls is collections.defaultdict:
            return self.factory(tx) or tx.wrap(None)
        if name in ("move_to_end", "__missing__") and hasattr(self.cls, name):
            return MethodVariable(self, name)
        if name in self.methods and not hasattr(self.cls, name):
            tx.raise_(AttributeError, f"'{self.type_name()}' object has no attribute '{name}'")
        return super().getattr(tx, name)

    def setattr(self, tx: Tx, name: str, value: VariableTracker) -> None:
        if name == "default_factory" and self.cls is collections.defaultdict and self.source is None:
            self.default_factory = value
            return
        super().setattr(tx, name, value)

    def factory(self, tx: Tx) -> VariableTracker | None:
        """The default factory of a defaultdict, or None where it is None."""
        if self.default_factory is None and self.source is not None and self.cls is collections.defaultdict:
            self.default_factory = tx.lazy(self.real.default_factory, self.source.attr("default_factory"))
        found = self.default_factory.realize() if self.default_factory is not None else None
        if found is not None and is_the(found, None):
            return None
        return found

    # ---------------------------------------------------------- graph, shadows

    def as_proxy(self) -> Any:
        if not self.is_complete:
            return super().as_proxy()
        return {e.key.realize().as_proxy(): e.value.realize().as_proxy() for e in self.entries_by_key.values()}

    def shadow(self, tx: Tx, leaf: Leaf, memo: dict[int, Any]) -> Any:
        self.complete(tx)
        result: Any
        if self.cls is collections.defaultdict:
            factory = self.factory(tx)
            result = collections.defaultdict(_ShownFactory(None if factory is None else leaf(factory)))
        else:
            result = self.cls()
        memo[id(self)] = result
        for entry in self.entries_by_key.values():
            result[shadow_of(tx, entry.key, leaf, memo)] = shadow_of(tx, entry.value, leaf, memo)
        return result

    # ---------------------------------------------------------- codegen

    def reconstruct(self, emit: Emitter) -> None:
        if self.cls is dict:
            emit.op("build_map", 0)
        else:
            emit.load_constant(self.cls)
            if self.default_factory is not None:
                emit(self.default_factory)
            emit.op("call", 1 if self.default_factory is not None else 0)
        emit.remember(self)
        for entry in self.entries_by_key.values():
            emit.op("copy", 1)
            emit(entry.value)
            emit.op("swap", 2)
            emit(entry.key)
            emit.op("store_subscr")

    def replay(self, emit: Emitter) -> None:
        source = self.source
        assert source is not None
        base: Any = collections.OrderedDict if issubclass(self.cls, collections.OrderedDict) else dict

        def load() -> None:
            emit.load_source(source)

        if self.rebuild:
            self._replay_rebuilt(emit, base, load)
            return
        if self.removed.keys() == self.popped:  # they were the last ones; `popitem` also changes how a dict is stored
            for _ in self.removed:
                emit_call(emit, base.popitem, load)
        else:
            for key in self.removed.values():
                emit_call(emit, base.__delitem__, load, functools.partial(emit, key))
        for index in self.written:
            entry = self.entries_by_key[index]
            emit_call(
                emit, base.__setitem__, load, functools.partial(emit, entry.key), functools.partial(emit, entry.value)
            )

        if self.reordered:
            emit_call(emit, _reorder, load, lambda: self._emit_keys(emit))

    def _emit_keys(self, emit: Emitter) -> None:
        for entry in self.entries_by_key.values():
            emit(entry.key)
        emit.op("build_list", len(self.entries_by_key))

    def _replay_rebuilt(self, emit: Emitter, base: Any, load: Callable[[], None]) -> None:
        """Give the outside dict its content anew; values are read before the old content goes."""
        emit.load_constant(_replace_content)
        emit.load_constant(base)
        load()
        for entry in self.entries_by_key.values():
            emit(entry.key)
            emit(entry.value)
            emit.op("build_tuple", 2)
        emit.op("build_list", len(self.entries_by_key))
        emit.op("call", 3)
        emit.op("pop_top")

    def __repr__(self) -> str:
        more = "" if self.is_complete else "+"
        origin = f" from {self.source}" if self.source is not None else ""
        return f"<{self.cls.__name__} of {len(self.entries_by_key)}{more}{origin}>"


def _is_silent(key: Any) -> bool:
    """Whether a dict compares a key with another without running code of the program."""
    cls = type(key)
    if cls is str:
        return True
    methods = (cls.__hash__, cls.__eq__)
    return not any(isinstance(m, FunctionType) for m in methods) or is_trusted_class(cls)


def _key_of(entry: Entry) -> VariableTracker:
    return entry.key


class _ShownFactory:
    """A default factory inside a shadow: shows as the real one."""

    def __init__(self, shown: Any) -> None:
        self.shown = shown

    def __call__(self) -> Any:
        return None

    def __repr__(self) -> str:
        return repr(self.shown)


def _reorder(real: collections.OrderedDict[Any, Any], keys: list[Any]) -> None:
    for key in keys:
        collections.OrderedDict.move_to_end(real, key)


def _replace_content(base: Any, real: Any, items: list[tuple[Any, Any]]) -> None:
    base.clear(real)
    for key, value in items:
        base.__setitem__(real, key, value)
