"""The Python stand-ins do what the C functions do, and can be captured."""

import bisect
import collections
import copy
import functools
import heapq
import itertools
import math
import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.builtin_calls import polyfill_functions as python
from graphwright.builtin_calls.polyfills import POLYFILLS

numbers = st.lists(st.integers(-5, 5), max_size=12)


def outcome(fn, *args, **kwargs):
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)


@settings(max_examples=60, deadline=None)
@given(numbers)
def test_lazy_functions(items):
    pairs = [
        (itertools.accumulate, (items,), {}),
        (itertools.accumulate, (items, max), {"initial": 2}),
        (itertools.compress, (items, [v > 0 for v in items]), {}),
        (itertools.dropwhile, (lambda v: v < 2, items), {}),
        (itertools.takewhile, (lambda v: v < 2, items), {}),
        (itertools.starmap, (pow, [(abs(v), 2) for v in items]), {}),
        (itertools.pairwise, (items,), {}),
        (itertools.zip_longest, (items, "abc", ()), {"fillvalue": 0}),
    ]
    for fn, args, kwargs in pairs:
        assert list(POLYFILLS[fn](*args, **kwargs)) == list(fn(*args, **kwargs)), fn


@settings(max_examples=60, deadline=None)
@given(numbers, st.booleans())
def test_groups(items, early):
    def grouped(groupby):
        if early:
            return [(k, next(g, None)) for k, g in groupby(items, abs)]
        return [(k, list(g)) for k, g in groupby(items, abs)]

    assert grouped(python.groupby) == grouped(itertools.groupby)


def test_old_groups_are_empty():
    def run(groupby):
        groups = list(groupby([1, 1, 2, 2, 3]))
        return [(k, list(g)) for k, g in groups]

    assert run(python.groupby) == run(itertools.groupby)


@settings(max_examples=60, deadline=None)
@given(numbers, st.lists(st.integers(0, 2), max_size=20))
def test_tee(items, turns):
    def run(tee):
        copies = tee(iter(items), 3)
        return [next(copies[i], None) for i in turns], [list(c) for c in copies]

    assert run(python.tee) == run(itertools.tee)


@settings(max_examples=100, deadline=None)
@given(numbers, st.lists(st.tuples(st.integers(0, 4), st.integers(-5, 5)), max_size=12))
def test_heaps(items, steps):
    def run(functions):
        heap = [[v, i] for i, v in enumerate(items)]
        functions["heapify"](heap)
        seen = []
        for kind, value in steps:
            name = ("heappush", "heappop", "heapreplace", "heappushpop", "heappop")[kind]
            seen.append(outcome(functions[name], heap, *([] if name == "heappop" else [[value, 99]])))
        return heap, seen

    names = ("heapify", "heappush", "heappop", "heapreplace", "heappushpop")
    real = {n: getattr(heapq, n) for n in names}
    assert run({n: POLYFILLS[f] for n, f in real.items()}) == run(real)


@settings(max_examples=60, deadline=None)
@given(numbers)
def test_max_heaps(items):
    def run(heapify, pop, replace):
        heap = list(items)
        heapify(heap)
        seen = [outcome(replace, heap, 3), outcome(pop, heap)]
        return heap, seen

    ours = run(python.heapify_max, python.heappop_max, python.heapreplace_max)
    assert ours == run(heapq._heapify_max, heapq._heappop_max, heapq._heapreplace_max)


@settings(max_examples=60, deadline=None)
@given(numbers, st.integers(-6, 6), st.integers(-2, 4))
def test_bisect(items, wanted, lo):
    items.sort()
    for name in ("bisect_left", "bisect_right", "insort_left", "insort_right"):
        for kwargs in ({}, {"key": lambda v: v // 2}):
            ours, real = list(items), list(items)
            got = outcome(getattr(python, name), ours, wanted, lo, **kwargs)
            assert got == outcome(getattr(bisect, name), real, wanted, lo, **kwargs)
            assert ours == real


def test_counting():
    for items, wanted in (([1, 1.0, 2], 1), ([], 1), ("aba", "a")):
        assert python.count_of(items, wanted) == operator.countOf(items, wanted)
        assert outcome(python.index_of, items, wanted) == outcome(operator.indexOf, items, wanted)
    assert python.product_of([2, 3], start=4) == math.prod([2, 3], start=4)
    ours, real = {}, {}
    python.count_elements(ours, "abca")
    collections._count_elements(real, "abca")
    assert ours == real
    assert outcome(python.batched, [1], 0) == (ValueError, "n must be at least one")
    assert list(python.batched([1, 2, 3], 2)) == [(1, 2), (3,)]


CAPTURED = [
    lambda x: list(itertools.accumulate(x, operator.mul)),
    lambda x: list(itertools.accumulate(x, initial=5)),
    lambda x: list(itertools.compress(x, [1, 0, 1])),
    lambda x: list(itertools.dropwhile(lambda v: v < 2, x)),
    lambda x: list(itertools.takewhile(lambda v: v < 2, x)),
    lambda x: list(itertools.starmap(pow, [(2, 3), (3, 2)])),
    lambda x: list(itertools.pairwise(x)),
    lambda x: list(itertools.zip_longest(x, "ab", fillvalue=None)),
    lambda x: [(k, list(g)) for k, g in itertools.groupby(sorted(x), key=lambda v: v % 2)],
    lambda x: [list(c) for c in itertools.tee(x, 2)],
    lambda x: (heapq.heapify(x), heapq.heappush(x, 0), heapq.heappop(x), x),
    lambda x: heapq.nsmallest(2, x),
    lambda x: heapq.nlargest(2, x, key=lambda v: -v),
    lambda x: (bisect.bisect(x, 2), bisect.insort(x, 2), x),
    lambda x: collections.Counter(x),
    lambda x: collections.Counter("abca").most_common(1),
    lambda x: operator.indexOf(x, 2),
    lambda x: sorted(x, key=functools.cmp_to_key(lambda a, b: b - a)),
    lambda x: copy.copy(x) + copy.deepcopy([x, x])[1],
    lambda x: functools.reduce(operator.add, x, 5),
    lambda x: collections.ChainMap({1: 2}, {3: 4})[3],
    lambda x: max(zip(x, "abc"), key=operator.itemgetter(1)),
]


@pytest.mark.e2e
@pytest.mark.parametrize("number", range(len(CAPTURED)))
def test_captured(captures, number):
    captures(CAPTURED[number], [1, 2, 3])
