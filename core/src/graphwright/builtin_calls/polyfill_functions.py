"""Python stand-ins for functions written in C: capture inlines them, so they must do exactly what the originals do.

They run only as traced code. Errors and order of calls follow CPython's `Modules/itertoolsmodule.c`, `_heapqmodule.c`,
`_bisectmodule.c`, `_operator.c` and `_collectionsmodule.c`.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

# ------------------------------------------------------------------ itertools


def accumulate(iterable: Iterable[Any], func: Any = None, *, initial: Any = None) -> Iterator[Any]:
    """`itertools.accumulate`."""
    return _accumulate(iter(iterable), operator.add if func is None else func, initial)


def _accumulate(iterator: Iterator[Any], func: Callable[[Any, Any], Any], total: Any) -> Iterator[Any]:
    if total is None:
        for item in iterator:
            total = item
            break
        else:
            return
    yield total
    for item in iterator:
        total = func(total, item)
        yield total


def compress(data: Iterable[Any], selectors: Iterable[Any]) -> Iterator[Any]:
    """`itertools.compress`."""
    return _compress(iter(data), iter(selectors))


def _compress(data: Iterator[Any], selectors: Iterator[Any]) -> Iterator[Any]:
    for item, wanted in zip(data, selectors):  # noqa: B905  the shorter one ends it
        if wanted:
            yield item


def dropwhile(predicate: Callable[[Any], Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    """`itertools.dropwhile`."""
    return _dropwhile(predicate, iter(iterable))


def _dropwhile(predicate: Callable[[Any], Any], iterator: Iterator[Any]) -> Iterator[Any]:
    for item in iterator:
        if not predicate(item):
            yield item
            break
    for item in iterator:
        yield item


def takewhile(predicate: Callable[[Any], Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    """`itertools.takewhile`."""
    return _takewhile(predicate, iter(iterable))


def _takewhile(predicate: Callable[[Any], Any], iterator: Iterator[Any]) -> Iterator[Any]:
    for item in iterator:
        if not predicate(item):
            return
        yield item


def starmap(function: Callable[..., Any], iterable: Iterable[Iterable[Any]], /) -> Iterator[Any]:
    """`itertools.starmap`."""
    return _starmap(function, iter(iterable))


def _starmap(function: Callable[..., Any], iterator: Iterator[Iterable[Any]]) -> Iterator[Any]:
    for args in iterator:
        yield function(*args)


def pairwise(iterable: Iterable[Any], /) -> Iterator[tuple[Any, Any]]:
    """`itertools.pairwise`."""
    return _pairwise(iter(iterable))


def _pairwise(iterator: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
    nothing = before = object()
    for item in iterator:
        if before is not nothing:
            yield before, item
        before = item


def batched(iterable: Iterable[Any], n: int) -> Iterator[tuple[Any, ...]]:
    """`itertools.batched` of Python 3.12."""
    if n < 1:
        raise ValueError("n must be at least one")
    return _batched(iter(iterable), n)


def _batched(iterator: Iterator[Any], n: int) -> Iterator[tuple[Any, ...]]:
    batch = []
    for item in iterator:
        batch.append(item)
        if len(batch) == n:
            yield tuple(batch)
            batch = []
    if batch:
        yield tuple(batch)


def zip_longest(*iterables: Iterable[Any], fillvalue: Any = None) -> Iterator[tuple[Any, ...]]:
    """`itertools.zip_longest`."""
    iterators: list[Any] = []
    for iterable in iterables:
        iterators.append(iter(iterable))
    return _zip_longest(iterators, fillvalue)


def _zip_longest(iterators: list[Any], fillvalue: Any) -> Iterator[tuple[Any, ...]]:
    active = len(iterators)
    nothing = object()
    while active:
        row = []
        for position, iterator in enumerate(iterators):
            item = nothing if iterator is None else next(iterator, nothing)
            if item is nothing:
                if iterator is not None:
                    iterators[position] = None
                    active -= 1
                    if not active:
                        return
                item = fillvalue
            row.append(item)
        yield tuple(row)


def groupby(iterable: Iterable[Any], key: Callable[[Any], Any] | None = None) -> Iterator[tuple[Any, Iterator[Any]]]:
    """`itertools.groupby`."""
    return _groups(iter(iterable), key)


def _groups(iterator: Iterator[Any], key: Callable[[Any], Any] | None) -> Iterator[tuple[Any, Iterator[Any]]]:
    # state: [whether an item waits, the item, its key, number of the group that may still be read]
    state: list[Any] = [False, None, None, 0]
    if not _advance(iterator, key, state):
        return
    while True:
        target = state[2]
        yield target, _one_group(iterator, key, state, target, state[3])
        state[3] += 1
        while state[0] is False or target is state[2] or target == state[2]:
            if not _advance(iterator, key, state):
                return


def _advance(iterator: Iterator[Any], key: Callable[[Any], Any] | None, state: list[Any]) -> bool:
    for item in iterator:
        state[0], state[1] = True, item
        state[2] = item if key is None else key(item)
        return True
    return False


def _one_group(
    iterator: Iterator[Any], key: Callable[[Any], Any] | None, state: list[Any], target: Any, number: int
) -> Iterator[Any]:
    while state[3] == number:
        if not state[0] and not _advance(iterator, key, state):
            return
        if not (target is state[2] or target == state[2]):
            return
        state[0] = False
        yield state[1]


def tee(iterable: Iterable[Any], n: int = 2, /) -> tuple[Iterator[Any], ...]:
    """`itertools.tee`."""
    if n < 0:
        raise ValueError("n must be >= 0")
    iterator = iter(iterable)
    queues: list[deque[Any]] = []
    for _ in range(n):
        queues.append(deque())
    copies = []
    for queue in queues:
        copies.append(_tee_copy(iterator, queue, queues))
    return tuple(copies)


def _tee_copy(iterator: Iterator[Any], own: deque[Any], queues: list[deque[Any]]) -> Iterator[Any]:
    while True:
        if not own:
            for item in iterator:
                for queue in queues:
                    queue.append(item)
                break
            else:
                return
        yield own.popleft()


# ------------------------------------------------------------------ operator, collections


def count_of(a: Iterable[Any], b: Any, /) -> int:
    """`operator.countOf`."""
    count = 0
    for item in a:
        if item is b or item == b:
            count += 1
    return count


def index_of(a: Iterable[Any], b: Any, /) -> int:
    """`operator.indexOf`."""
    for position, item in enumerate(a):
        if item is b or item == b:
            return position
    raise ValueError("sequence.index(x): x not in sequence")


def count_elements(mapping: Any, iterable: Iterable[Any], /) -> None:
    """`collections._count_elements`, which `Counter.update` calls."""
    for element in iterable:
        mapping[element] = mapping.get(element, 0) + 1


def product_of(iterable: Iterable[Any], /, *, start: Any = 1) -> Any:
    """`math.prod`, for what is not known while capturing."""
    result = start
    for item in iterable:
        result = result * item
    return result


# ------------------------------------------------------------------ functools


class ComparedKey:
    """What `functools.cmp_to_key` wraps its arguments in."""

    __slots__ = ("compare", "obj")
    __hash__ = None  # type: ignore[assignment]  # Python's way to say unhashable

    def __init__(self, compare: Callable[[Any, Any], Any], obj: Any) -> None:
        self.compare = compare
        self.obj = obj

    def __lt__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) > 0

    def __eq__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) == 0

    def __le__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) >= 0


def cmp_to_key(mycmp: Callable[[Any, Any], Any]) -> Callable[[Any], ComparedKey]:
    """`functools.cmp_to_key`."""
    return lambda obj: ComparedKey(mycmp, obj)


# ------------------------------------------------------------------ heapq


def heappush(heap: list[Any], item: Any, /) -> None:
    """`heapq.heappush`."""
    heap.append(item)
    _rise(heap, 0, len(heap) - 1, False)


def heappop(heap: list[Any], /) -> Any:
    """`heapq.heappop`."""
    return _pop(heap, False)


def heappop_max(heap: list[Any], /) -> Any:
    """`heapq._heappop_max`."""
    return _pop(heap, True)


def heapreplace(heap: list[Any], item: Any, /) -> Any:
    """`heapq.heapreplace`."""
    return _replace(heap, item, False)


def heapreplace_max(heap: list[Any], item: Any, /) -> Any:
    """`heapq._heapreplace_max`."""
    return _replace(heap, item, True)


def heappushpop(heap: list[Any], item: Any, /) -> Any:
    """`heapq.heappushpop`."""
    if heap and heap[0] < item:
        item, heap[0] = heap[0], item
        _sink(heap, 0, False)
    return item


def heapify(heap: list[Any], /) -> None:
    """`heapq.heapify`."""
    for position in reversed(range(len(heap) // 2)):
        _sink(heap, position, False)


def heapify_max(heap: list[Any], /) -> None:
    """`heapq._heapify_max`."""
    for position in reversed(range(len(heap) // 2)):
        _sink(heap, position, True)


def _pop(heap: list[Any], largest: bool) -> Any:
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    if not heap:
        return last
    first = heap[0]
    heap[0] = last
    _sink(heap, 0, largest)
    return first


def _replace(heap: list[Any], item: Any, largest: bool) -> Any:
    if not heap:
        raise IndexError("index out of range")
    first = heap[0]
    heap[0] = item
    _sink(heap, 0, largest)
    return first


def _rise(heap: list[Any], start: int, position: int, largest: bool) -> None:
    item = heap[position]
    while position > start:
        parent = (position - 1) >> 1
        before = heap[parent] < item if largest else item < heap[parent]
        if not before:
            break
        heap[position] = heap[parent]
        position = parent
    heap[position] = item


def _sink(heap: list[Any], position: int, largest: bool) -> None:
    """Move the item down to a leaf along the smaller children, then up to its place."""
    start, end = position, len(heap)
    item = heap[position]
    child = 2 * position + 1
    while child < end:
        right = child + 1
        if right < end:
            keeps_left = heap[right] < heap[child] if largest else heap[child] < heap[right]
            if not keeps_left:
                child = right
        heap[position] = heap[child]
        position = child
        child = 2 * position + 1
    heap[position] = item
    _rise(heap, start, position, largest)


# ------------------------------------------------------------------ bisect


def bisect_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Any = None) -> int:
    """`bisect.bisect_left`."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    if hi is None:
        hi = len(a)
    while lo < hi:
        middle = (lo + hi) // 2
        item = a[middle] if key is None else key(a[middle])
        if item < x:
            lo = middle + 1
        else:
            hi = middle
    return lo


def bisect_right(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Any = None) -> int:
    """`bisect.bisect_right`."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    if hi is None:
        hi = len(a)
    while lo < hi:
        middle = (lo + hi) // 2
        item = a[middle] if key is None else key(a[middle])
        if x < item:
            hi = middle
        else:
            lo = middle + 1
    return lo


def insort_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Any = None) -> None:
    """`bisect.insort_left`."""
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


def insort_right(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Any = None) -> None:
    """`bisect.insort_right`."""
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


_NOTHING = object()


def reduce(function: Any, iterable: Any, initial: Any = _NOTHING, /) -> Any:
    """`functools.reduce`."""
    it = iter(iterable)
    if initial is _NOTHING:
        try:
            value = next(it)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    else:
        value = initial
    for item in it:
        value = function(value, item)
    return value
