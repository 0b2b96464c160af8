"""Sets that grow together: which things belong to one group, with the smallest of them as its representative."""

from __future__ import annotations

from collections.abc import Iterable


class UnionFind:
    """Groups of the numbers from 0 on; each begins as a group of its own."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def find(self, number: int) -> int:
        """The representative of a number's group."""
        root = number
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[number] != root:
            self._parent[number], number = root, self._parent[number]
        return root

    def join(self, numbers: Iterable[int]) -> None:
        """Make one group of the groups of these numbers."""
        roots = sorted({self.find(number) for number in numbers})
        for root in roots[1:]:
            self._parent[root] = roots[0]
