"""The lazy iterators of the builtins and of itertools, working on variables."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from graphwright.variables.base import Args, Emitter, Kwargs, NotReconstructible, Tx, VariableTracker, try_next
from graphwright.variables.comparison import compare, equal
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.iterator import IteratorVariable
from graphwright.variables.tuple import TupleVariable


def iterator_of(tx: Tx, value: VariableTracker) -> VariableTracker:
    """`iter(value)`, looked at."""
    return value.realize().iterate(tx).realize()


class EnumerateVariable(IteratorVariable):
    """``enumerate``; positions are counted with `+`, so that a symbolic start stays symbolic."""

    exact_type = enumerate

    def __init__(self, inner: VariableTracker, start: VariableTracker) -> None:
        self.inner = inner
        self.count = start

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        item = try_next(tx, self.inner)
        if item is None:
            return None
        position = self.count
        self.count = _plus(tx, position, ConstantVariable(1))
        return TupleVariable([position, item])

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(enumerate)
        emit(self.inner)
        emit(self.count)
        emit.op("call", 2)


def _plus(tx: Tx, a: VariableTracker, b: VariableTracker) -> VariableTracker:
    if a.is_python_constant() and b.is_python_constant():
        return ConstantVariable(a.as_python_constant() + b.as_python_constant())
    return compare(tx, operator.add, a, b)


class ZipVariable(IteratorVariable):
    """``zip``."""

    exact_type = zip

    def __init__(self, inner: list[VariableTracker], *, strict: bool = False) -> None:
        self.inner = inner
        self.strict = strict

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        if not self.inner:
            return None
        items = []
        for position, inner in enumerate(self.inner):
            item = try_next(tx, inner)
            if item is None:
                if self.strict:
                    self._check_ends(tx, position)
                return None
            items.append(item)
        return TupleVariable(items)

    def _check_ends(self, tx: Tx, ended: int) -> None:
        """Source: `zip_next` in CPython's `Python/bltinmodule.c`."""
        if ended > 0:
            before = "argument 1" if ended == 1 else f"arguments 1-{ended}"
            tx.raise_(ValueError, f"zip() argument {ended + 1} is shorter than {before}")
        for position, inner in enumerate(self.inner[1:], 1):
            if try_next(tx, inner) is not None:
                before = "argument 1" if position == 1 else f"arguments 1-{position}"
                tx.raise_(ValueError, f"zip() argument {position + 1} is longer than {before}")

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(zip)
        for inner in self.inner:
            emit(inner)
        emit.load_constant(self.strict)
        emit.op("call", len(self.inner) + 1, ("strict",))


class MapVariable(IteratorVariable):
    """``map``."""

    exact_type = map

    def __init__(self, function: VariableTracker, inner: list[VariableTracker]) -> None:
        self.function = function
        self.inner = inner

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        items = []
        for inner in self.inner:
            item = try_next(tx, inner)
            if item is None:
                return None
            items.append(item)
        return tx.call(self.function, items)

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(map)
        emit(self.function)
        for inner in self.inner:
            emit(inner)
        emit.op("call", len(self.inner) + 1)


class FilterVariable(IteratorVariable):
    """``filter`` and ``itertools.filterfalse``; a function of None asks the items themselves."""

    def __init__(self, function: VariableTracker, inner: VariableTracker, *, keep: bool = True) -> None:
        self.function = function
        self.inner = inner
        self.keep = keep
        self.exact_type = filter if keep else itertools.filterfalse
        self._asks_items = function.is_python_constant() and function.as_python_constant() in (None, bool)

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        while (item := try_next(tx, self.inner)) is not None:
            answer = item if self._asks_items else tx.call(self.function, [item])
            if answer.realize().truth(tx) is self.keep:
                return item
        return None

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(self.exact_type)
        emit(self.function)
        emit(self.inner)
        emit.op("call", 2)


class CallIterator(IteratorVariable):
    """``iter(callable, sentinel)``."""

    exact_type = type(iter(int, 1))

    def __init__(self, function: VariableTracker, sentinel: VariableTracker) -> None:
        self.function: VariableTracker | None = function
        self.sentinel = sentinel

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        if self.function is None:
            return None
        item = tx.call(self.function, [])
        if equal(tx, self.sentinel, item):
            self.function = None
            return None
        return item


class ReversedVariable(IteratorVariable):
    """``reversed`` of an object with `__len__` and `__getitem__`."""

    exact_type = reversed

    def __init__(self, owner: VariableTracker, count: int) -> None:
        self.owner = owner
        self.position = count - 1

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        if self.position < 0:
            return None
        key = ConstantVariable(self.position)
        self.position -= 1
        return tx.call(tx.wrap(operator.getitem), [self.owner, key])


# ------------------------------------------------------------------ itertools


class CountVariable(IteratorVariable):
    """``itertools.count``."""

    exact_type = itertools.count

    def __init__(self, start: VariableTracker, step: VariableTracker) -> None:
        self.value = start
        self.step = step
        if start.python_type() is bool and step.is_python_constant():
            by = step.as_python_constant()
            if isinstance(by, int) and by == 1:  # counted in a C integer, which forgets that it was a bool
                self.value = ConstantVariable(int(start.as_python_constant()))

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        item = self.value
        self.value = _plus(tx, item, self.step)
        return item

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(itertools.count)
        emit(self.value)
        emit(self.step)
        emit.op("call", 2)


class RepeatVariable(IteratorVariable):
    """``itertools.repeat``; `times` is None for no end."""

    exact_type = itertools.repeat

    def __init__(self, item: VariableTracker, times: int | None) -> None:
        self.item = item
        self.times = None if times is None else max(times, 0)

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        if self.times is not None:
            if self.times == 0:
                return None
            self.times -= 1
        return self.item

    def remaining(self, tx: Tx) -> int:
        if self.times is None:
            tx.raise_(TypeError, "len() of unsized object")
        return self.times

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(itertools.repeat)
        emit(self.item)
        if self.times is not None:
            emit.load_constant(self.times)
        emit.op("call", 1 if self.times is None else 2)


class CycleVariable(IteratorVariable):
    """``itertools.cycle``."""

    exact_type = itertools.cycle

    def __init__(self, inner: VariableTracker) -> None:
        self.inner: VariableTracker | None = inner
        self.saved: list[VariableTracker] = []
        self.position = 0

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        if self.inner is not None:
            item = try_next(tx, self.inner)
            if item is not None:
                self.saved.append(item)
                return item
            self.inner = None
        if not self.saved:
            return None
        item = self.saved[self.position]
        self.position = (self.position + 1) % len(self.saved)
        return item


class ChainVariable(IteratorVariable):
    """``itertools.chain`` over an iterator of iterables."""

    exact_type = itertools.chain

    def __init__(self, outer: VariableTracker) -> None:
        self.outer = outer
        self.active: VariableTracker | None = None

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        while True:
            if self.active is None:
                following = try_next(tx, self.outer)
                if following is None:
                    return None
                self.active = iterator_of(tx, following)
            item = try_next(tx, self.active)
            if item is not None:
                return item
            self.active = None

    def reconstruct(self, emit: Emitter) -> None:
        if self.active is not None:
            emit.load_constant(itertools.chain)
            emit(self.active)
        emit.load_constant(itertools.chain.from_iterable)
        emit(self.outer)
        emit.op("call", 1)
        if self.active is not None:
            emit.op("call", 2)


class IsliceVariable(IteratorVariable):
    """``itertools.islice``: takes the items at the positions of `wanted`."""

    exact_type = itertools.islice

    def __init__(self, inner: VariableTracker, start: int, stop: int | None, step: int) -> None:
        self.inner: VariableTracker | None = inner
        self.next_wanted = start
        self.stop = stop
        self.step = step
        self.taken = 0

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        """Source: `islice_next` in CPython's `Modules/itertoolsmodule.c`."""
        if self.inner is None:
            return None
        while self.taken < self.next_wanted:
            if try_next(tx, self.inner) is None:
                self.inner = None
                return None
            self.taken += 1
        ended = self.stop is not None and self.taken >= self.stop
        item = None if ended else try_next(tx, self.inner)
        if item is None:
            self.inner = None
            return None
        self.taken += 1
        self.next_wanted += self.step
        if self.stop is not None and self.next_wanted > self.stop:
            self.next_wanted = self.stop
        return item


class PoolVariable(IteratorVariable):
    """Combinations and the like: tuples of items whose positions a real iterator over numbers gives."""

    def __init__(self, pools: Sequence[Sequence[VariableTracker]], positions: Any) -> None:
        self.pools = pools
        self.positions: Iterator[tuple[int, ...]] = positions
        self.exact_type = type(positions)

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        chosen = next(self.positions, None)
        if chosen is None:
            return None
        pools = self.pools if len(self.pools) != 1 else [self.pools[0]] * len(chosen)
        return TupleVariable([pool[i] for pool, i in zip(pools, chosen, strict=True)])


# ------------------------------------------------------------------ functions that look inside their argument


class GetterVariable(VariableTracker):
    """``operator.itemgetter``, ``attrgetter`` or ``methodcaller`` objects.

    Args:
        kind: the class.
        args: what it was made with.
        kwargs: keywords that a methodcaller passes on.
    """

    def __init__(
        self, kind: Callable[..., Any], args: list[VariableTracker], kwargs: Kwargs, source: Any = None
    ) -> None:
        self.kind: Any = kind
        self.args = args
        self.kwargs = kwargs
        self.source = source

    @classmethod
    def outside(cls, tx: Tx, value: Any, source: Any) -> GetterVariable:
        """The variable of a getter that came from outside, which is immutable: guarded by identity."""
        tx.capture.guards.add(source, "id", value)
        maker, args = value.__reduce__()
        named = maker.keywords if isinstance(maker, functools.partial) else {}
        given = (*maker.args, *args) if isinstance(maker, functools.partial) else args
        return cls(type(value), [tx.wrap(a) for a in given], {k: tx.wrap(v) for k, v in named.items()}, source)

    def python_type(self) -> type:
        found: type = self.kind
        return found

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        if len(args) != 1 or kwargs:
            tx.raise_(TypeError, f"{self.kind.__name__} expected 1 argument, got {len(args)}")
        owner = args[0].realize()
        if self.kind is operator.methodcaller:
            name, *rest = self.args
            return tx.call(owner.getattr(tx, name.realize().as_python_constant()), rest, self.kwargs)
        get = self._item if self.kind is operator.itemgetter else self._attribute
        found = [get(tx, owner, arg.realize()) for arg in self.args]
        return found[0] if len(found) == 1 else TupleVariable(found)

    def _item(self, tx: Tx, owner: VariableTracker, key: VariableTracker) -> VariableTracker:
        return tx.call(tx.wrap(operator.getitem), [owner, key])

    def _attribute(self, tx: Tx, owner: VariableTracker, path: VariableTracker) -> VariableTracker:
        for name in path.as_python_constant().split("."):
            owner = owner.realize().getattr(tx, name)
        return owner

    def hash_key(self, tx: Tx) -> Any:
        return self

    def reconstruct(self, emit: Emitter) -> None:
        if self.source is not None:
            raise NotReconstructible(self)
        emit.load_constant(self.kind)
        for value in (*self.args, *self.kwargs.values()):
            emit(value)
        emit.op("call", len(self.args) + len(self.kwargs), tuple(self.kwargs))
