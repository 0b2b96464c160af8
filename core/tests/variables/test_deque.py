"""Deques do what Python's deques do."""

import operator
from collections import deque

import pytest

STEPS = [
    lambda b, q: q.append(9),
    lambda b, q: q.appendleft(9),
    lambda b, q: q.pop(),
    lambda b, q: q.popleft(),
    lambda b, q: q.extend([7, 8]),
    lambda b, q: q.extendleft([7, 8]),
    lambda b, q: q.extend(q),
    lambda b, q: q.rotate(),
    lambda b, q: q.rotate(-1),
    lambda b, q: q.rotate("a"),
    lambda b, q: q.reverse(),
    lambda b, q: q.clear(),
    lambda b, q: q.insert(1, 9),
    lambda b, q: q.remove(2),
    lambda b, q: q.remove(99),
    lambda b, q: q.index(2),
    lambda b, q: q.index(2, 2),
    lambda b, q: q.index(99),
    lambda b, q: q.count(2),
    lambda b, q: q.copy(),
    lambda b, q: q.maxlen,
    lambda b, q: q[0],
    lambda b, q: q[-1],
    lambda b, q: q[10],
    lambda b, q: q[0:1],
    lambda b, q: q.__setitem__(0, 5),
    lambda b, q: q.__delitem__(0),
    lambda b, q: b(len)(q),
    lambda b, q: b(bool)(q),
    lambda b, q: b(list)(q),
    lambda b, q: b(list)(b(reversed)(q)),
    lambda b, q: b(repr)(q),
    lambda b, q: b(hash)(q),
    lambda b, q: b(operator.contains)(q, 2),
    lambda b, q: q + q,
    lambda b, q: q + [1],
    lambda b, q: q * 2,
    lambda b, q: 2 * q,
    lambda b, q: q.__iadd__([4]),
    lambda b, q: q.__imul__(2),
    lambda b, q: q == b(deque)([1, 2, 3]),
    lambda b, q: q < b(deque)([1, 2, 4]),
    lambda b, q: q == [1, 2, 3],
    lambda b, q: b(deque)(q, 2),
    lambda b, q: b(deque)(q, maxlen=b(len)(q)),
    lambda b, q: b(deque)(5),
    lambda b, q: b(deque)([], -1),
    lambda b, q: b(deque)([], "a"),
    lambda b, q: q.nothing,
    lambda b, q: b(setattr)(q, "a", 1),
]


@pytest.mark.parametrize("number", range(len(STEPS)))
@pytest.mark.parametrize("value", [deque([1, 2, 3]), deque([1, 2, 3], 3), deque()])
def test_methods(same, number, value):
    same(STEPS[number], value)


def test_changing_while_iterated(same):
    def fn(b, q):
        for item in q:
            q.append(item)

    same(fn, deque([1, 2]))


def test_storing_an_item_does_not_disturb_iteration(same):
    def fn(b, q):
        seen = b(list)()
        for item in q:
            seen.append(item)
            q[0] = 5
        return seen

    same(fn, deque([1, 2]))
