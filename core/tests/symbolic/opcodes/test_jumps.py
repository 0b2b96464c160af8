"""Branches and loops."""

import pytest


def branches(a, b):
    if a and b:
        return "both"
    elif a or b:
        x = a or b
    else:
        x = a and b
    y = "none" if x is None else "some"
    return x, y, not a


@pytest.mark.parametrize("a", [0, 1, "", "x", None, [], [0]], ids=repr)
@pytest.mark.parametrize("b", [0, 2, None, ()], ids=repr)
def test_branches(same, a, b):
    same(branches, a, b)


def test_while_with_break_continue_else(same):
    def f(n, stop):
        seen = []
        i = 0
        while i < n:
            i += 1
            if i % 2:
                continue
            if i == stop:
                break
            seen.append(i)
        else:
            seen.append("else")
        return seen

    same(f, 9, 100)
    same(f, 9, 4)


def test_do_while_jumps_backward(same):
    def f(n, value):
        while n:
            n -= 1
        while value is not None:
            value = value[1]
        while value is None:
            value = 1
        return n, value

    same(f, 3, (1, (2, None)))


def test_for_loops(same):
    def f(items, mapping):
        out = []
        for i, (a, b) in enumerate(zip(items, reversed(items))):
            if i == 2:
                break
            out.append((i, a, b))
        else:
            out.append("else")
        for k, v in mapping.items():
            out.append((k, v))
        for c in "ab":
            for n in range(2):
                out.append(c * n)
        return out

    same(f, [1, 2], {"x": 1, "y": [2]})
    same(f, [1, 2, 3], {})


def test_loop_over_what_does_not_iterate(same):
    def f(x):
        for _ in x:
            pass

    same(f, 3)


def test_list_changed_while_iterated(same):
    def f(items):
        for x in items:
            if x < 10:
                items.append(x + 5)
        return items

    same(f, [1, 7])


def test_user_iterator(same):
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    def f(n):
        return [x for x in Countdown(n)], list(Countdown(n)), max(Countdown(n))

    same(f, 3)


def test_comprehensions(same):
    def f(n):
        squares = [x * x for x in range(n) if x % 2]
        pairs = {(a, b) for a in range(2) for b in "xy"}
        table = {k: v for k, v in zip("abc", range(3))}
        nested = [[y + x for y in range(x)] for x in range(3)]
        return squares, pairs, table, nested, n

    same(f, 6)


def test_comprehension_that_captures_its_variable(same):
    def f(n):
        x = "outer"
        getters = [lambda: x for x in range(n)]
        return [g() for g in getters], x

    same(f, 3)
