"""Iterators: objects that hand out variables one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.variables.base import Args, Emitter, Kwargs, NotReconstructible, Tx, VariableTracker


class IteratorVariable(VariableTracker):
    """Base of iterators that are run at capture time.

    Subclasses give `next_or_none`. An iterator that outlives the capture is rebuilt only where its rest is known.
    """

    exact_type: type = type(iter([]))

    def python_type(self) -> type:
        return self.exact_type

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        """The next item, or None at the end."""
        raise NotImplementedError

    def next_item(self, tx: Tx) -> VariableTracker:
        item = self.next_or_none(tx)
        if item is None:
            tx.raise_(StopIteration)
        return item

    def iterate(self, tx: Tx) -> VariableTracker:
        return self

    def hash_key(self, tx: Tx) -> object:
        return self

    def reconstruct(self, emit: Emitter) -> None:
        raise NotReconstructible(self)

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "__next__" and not args and not kwargs:
            return self.next_item(tx)
        if name == "__iter__" and not args and not kwargs:
            return self
        if name == "__length_hint__" and not args and not kwargs and hasattr(self.exact_type, name):
            return tx.wrap(self.remaining(tx))
        return super().call_method(tx, name, args, kwargs)

    def remaining(self, tx: Tx) -> int:
        """How many items are left, where the type tells."""
        tx.graph_break(gb.UNKNOWN_CALL, f"length hint of a {self.type_name()}")

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name in ("__next__", "__iter__") or (name == "__length_hint__" and hasattr(self.exact_type, name)):
            return IteratorMethodVariable(self, name)
        if name == "__class__":
            return tx.wrap(self.exact_type)
        if hasattr(self.exact_type, name):
            tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"attribute {name!r} of a {self.type_name()}")
        tx.raise_(AttributeError, f"'{self.type_name()}' object has no attribute '{name}'")


class IteratorMethodVariable(VariableTracker):
    """``iterator.__next__``, ``__iter__`` or ``__length_hint__`` taken as a value."""

    def __init__(self, owner: IteratorVariable, name: str) -> None:
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        return type([].__len__)

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.owner.call_method(tx, self.name, args, kwargs)

    def hash_key(self, tx: Tx) -> object:
        return (IteratorMethodVariable, self.owner, self.name)

    def reconstruct(self, emit: Emitter) -> None:
        emit(self.owner)
        emit.op("load_attr", self.name)


class SequenceIterator(IteratorVariable):
    """An iterator over items that are all there already and stay."""

    def __init__(self, items: Sequence[VariableTracker], exact_type: type | None = None) -> None:
        self.items = items
        self.position = 0
        if exact_type is not None:
            self.exact_type = exact_type

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        if self.position >= len(self.items):
            return None
        item = self.items[self.position]
        self.position += 1
        return item

    def remaining(self, tx: Tx) -> int:
        return len(self.items) - self.position

    def reconstruct(self, emit: Emitter) -> None:
        if self.exact_type not in _MAKERS:
            raise NotReconstructible(self)
        rest = self.items[self.position :]
        emit.load_constant(iter)
        for item in rest:
            emit(item)
        emit.op(_MAKERS[self.exact_type], len(rest))
        emit.op("call", 1)


_MAKERS: dict[type, str] = {type(iter([])): "build_list", type(iter(())): "build_tuple"}


class LiveIterator(IteratorVariable):
    """An iterator over a list-like variable that sees changes made while it runs.

    Args:
        owner: the container, pushed when the iterator is rebuilt.
        items: gives the items as they are now.
        step: 1 for `iter`, -1 for `reversed`.
    """

    def __init__(
        self,
        owner: VariableTracker,
        items: Callable[[], Sequence[VariableTracker]],
        exact_type: type,
        step: int = 1,
    ) -> None:
        self.owner: VariableTracker | None = owner
        self._items = items
        self.exact_type = exact_type
        self._step = step
        self._position = 0 if step > 0 else len(items()) - 1

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        if self.owner is None:
            return None
        items = self._items()
        if not 0 <= self._position < len(items):
            self.owner = None
            return None
        item = items[self._position]
        self._position += self._step
        return item

    def remaining(self, tx: Tx) -> int:
        if self.owner is None:
            return 0
        count = len(self._items())
        if self._step > 0:
            return max(count - self._position, 0)
        return self._position + 1 if self._position < count else 0

    def reconstruct(self, emit: Emitter) -> None:
        if self.owner is None:
            emit.load_constant(iter)
            emit.op("build_list", 0)
            emit.op("call", 1)
            return
        emit.load_constant(iter if self._step > 0 else reversed)
        emit(self.owner)
        emit.op("call", 1)
        emit.op("copy", 1)
        emit.op("load_attr", "__setstate__")
        emit.load_constant(self._position)
        emit.op("call", 1)
        emit.op("pop_top")


def advanced(make: Callable[[Any], Iterator[Any]], container: Any, steps: int) -> Iterator[Any]:
    """An iterator that has made `steps` steps; replacement code calls this."""
    iterator = make(container)
    for _ in range(steps):
        next(iterator)
    return iterator


class CheckedIterator(IteratorVariable):
    """An iterator over a snapshot that refuses to go on once its container has changed, as those of dicts and sets do.

    Args:
        items: gives the item at a position.
        count: how many there were when the iterator was made.
        exact_type: the iterator's type.
        check: called with the position before each step; raises in the traced program where the container has changed.
        again: how to make the iterator anew: `iter` or `reversed`, what to call it with, and whether that is unchanged.
            Without it a rebuilt iterator is one over a list of what is left, which no change of the container stops.
    """

    def __init__(
        self,
        items: Callable[[int], VariableTracker],
        count: int,
        exact_type: type,
        check: Callable[[Tx, int], None],
        again: tuple[Callable[..., Any], VariableTracker, Callable[[], bool]] | None = None,
    ) -> None:
        self._items = items
        self._count = count
        self.exact_type = exact_type
        self._check = check
        self._again = again
        self._position = 0
        self._done = False

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        if self._done:
            return None
        self._check(tx, self._position)
        if self._position >= self._count:
            self._done = True
            return None
        item = self._items(self._position)
        self._position += 1
        return item

    def remaining(self, tx: Tx) -> int:
        return 0 if self._done else self._count - self._position

    def reconstruct(self, emit: Emitter) -> None:
        if self._again is not None and not self._done:
            make, container, is_unchanged = self._again
            if not is_unchanged():
                raise NotReconstructible(self)
            emit.load_constant(advanced)
            emit.load_constant(make)
            emit(container)
            emit.load_constant(self._position)
            emit.op("call", 3)
            return
        rest = [] if self._done else [self._items(i) for i in range(self._position, self._count)]
        emit.load_constant(iter)
        for item in rest:
            emit(item)
        emit.op("build_list", len(rest))
        emit.op("call", 1)
