"""Sets and frozen sets do what Python's do, the order of their items included."""

import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.exc import GraphBreak

OPERATIONS = [
    lambda b, s: b(len)(s),
    lambda b, s: b(list)(s),
    lambda b, s: b(sorted)(s),
    lambda b, s: b(operator.contains)(s, 3),
    lambda b, s: b(operator.contains)(s, {1}),
    lambda b, s: b(operator.contains)(s, [1]),
    lambda b, s: s | {9, 40},
    lambda b, s: s & {1, 3, 40},
    lambda b, s: s - {1},
    lambda b, s: s ^ {1, 100},
    lambda b, s: s | [1],
    lambda b, s: {1, 7} | s,
    lambda b, s: b(frozenset)([1, 7]) & s,
    lambda b, s: s & b(frozenset)([1, 7]),
    lambda b, s: s == {1, 2, 3},
    lambda b, s: s <= {1, 2, 3, 17, 33},
    lambda b, s: s < s,
    lambda b, s: s > 3,
    lambda b, s: s.union([4], (5,)),
    lambda b, s: s.intersection([1, 50]),
    lambda b, s: s.difference([1], [2]),
    lambda b, s: s.symmetric_difference([1, 60]),
    lambda b, s: s.issubset(b(range)(50)),
    lambda b, s: s.issuperset([1]),
    lambda b, s: s.isdisjoint([1]),
    lambda b, s: s.copy(),
    lambda b, s: b(set)(s),
    lambda b, s: b(frozenset)(s),
    lambda b, s: b(repr)(s),
    lambda b, s: b(bool)(s),
    lambda b, s: b(set)({17: 1, 1: 2, 33: 3}),
    lambda b, s: b(set)([17, 1, 33, 49]),
    lambda b, s: s.nothing,
    lambda b, s: s[0],
    lambda b, s: s + s,
    lambda b, s: b(max)(s),
    lambda b, s: b(sum)(s),
]
CHANGES = [
    lambda b, s: s.add(4),
    lambda b, s: s.add([]),
    lambda b, s: s.discard(1),
    lambda b, s: s.discard(77),
    lambda b, s: s.remove(1),
    lambda b, s: s.remove(77),
    lambda b, s: s.clear(),
    lambda b, s: s.update([4, 5], (6,)),
    lambda b, s: s.update({8: 1}),
    lambda b, s: s.update(5),
    lambda b, s: s.difference_update([1]),
    lambda b, s: s.intersection_update([1, 2]),
    lambda b, s: s.symmetric_difference_update([1, 9]),
    lambda b, s: s.__ior__({7}),
    lambda b, s: s.__iand__({1}),
    lambda b, s: s.__isub__({1}),
    lambda b, s: s.__ixor__({1, 8}),
]


@pytest.mark.parametrize("number", range(len(OPERATIONS)))
@pytest.mark.parametrize("value", [{1, 17, 33}, set(), frozenset({3, 1}), {"a", "b"}])
def test_operations(same, number, value):
    same(OPERATIONS[number], value)


@pytest.mark.parametrize("number", range(len(CHANGES)))
@pytest.mark.parametrize("value", [{1, 2, 33}, set()])
def test_changing(same, number, value):
    same(CHANGES[number], value)


def test_in_place_operators_keep_identity(same):
    def fn(b, s):
        t = s
        s |= {9}
        s -= {1}
        return b(operator.is_)(s, t), b(sorted)(s)

    same(fn, {1, 2})
    same(fn, frozenset({1, 2}))


def test_frozen_sets_are_keys(same):
    same(lambda b, s: b(dict)([(s, 1)])[b(frozenset)([2, 1])], frozenset({1, 2}))
    same(lambda b, s: b(hash)(s), frozenset({1, 2}))
    same(lambda b, s: b(operator.contains)(b(set)([b(frozenset)(s)]), s), {1, 2})


def test_size_may_not_change_while_iterated(same):
    def fn(b):
        s = b(set)([1, 2])
        for item in s:
            s.add(item + 10)

    same(fn)


def test_pop_follows_the_table(same):
    def fn(b):
        s = b(set)([40, 8, 16, 3])
        return s.pop(), s.pop(), s

    same(fn)
    same(lambda b: b(set)().pop())


def test_order_of_a_changed_outside_set_is_not_guessed(traced):
    def fn(b, s):
        s.add(3)
        return b(list)(s)

    with pytest.raises(GraphBreak):
        traced(fn, {1, 2})


def test_sorting_a_changed_outside_set(traced):
    def fn(b, s):
        s.add(3)
        return b(sorted)(s), b(len)(s)

    (_, (items, count)), (s,), _ = traced(fn, {5, 1})
    assert items == [1, 3, 5]
    assert count == 3
    assert s == {1, 3, 5}


numbers = st.integers(0, 70)
steps = st.lists(
    st.tuples(st.sampled_from(["add", "discard", "or", "and", "sub", "xor", "update", "copy"]), st.lists(numbers)),
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(numbers), steps)
def test_order_after_any_history(run_both, start, history):
    def fn(b):
        s = b(set)(start)
        for name, items in history:
            if name in ("add", "discard"):
                for item in items:
                    (s.add if name == "add" else s.discard)(item)
            elif name == "update":
                s.update(items)
            elif name == "copy":
                s = s.copy()
            else:
                s = getattr(operator, {"or": "or_", "and": "and_"}.get(name, name))(s, b(set)(items))
        return b(list)(s)

    run_both(fn)
