"""A map whose keys are objects themselves, not what they equal, and are held weakly.

Code objects compare by value: two functions made alike have equal ones, though each has a life of its own.
"""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class WeakIdentityMap(Generic[K, V]):
    """Values by the identity of a key; an item goes when its key dies."""

    def __init__(self) -> None:
        self._items: dict[int, tuple[weakref.ref[K], V]] = {}

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        item = self._items.get(id(key))
        return item[1] if item is not None and item[0]() is key else None

    def setdefault(self, key: K, value: V) -> V:
        """The value of a key, which becomes `value` if it has none; one thread's, where several ask at once."""
        found = self.get(key)
        if found is not None:
            return found
        index, items = id(key), self._items

        def forget(reference: weakref.ref[K]) -> None:
            item = items.get(index)
            if item is not None and item[0] is reference:
                del items[index]

        item = items.setdefault(index, (weakref.ref(key, forget), value))
        return item[1]

    def items(self) -> list[tuple[K, V]]:
        """The keys alive, with their values."""
        found = ((reference(), value) for reference, value in list(self._items.values()))
        return [(key, value) for key, value in found if key is not None]

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def __len__(self) -> int:
        return len(self._items)

    def clear(self) -> None:
        """Forget all keys."""
        self._items.clear()
