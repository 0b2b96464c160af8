"""Building and unpacking containers."""

import pytest


def test_displays(same):
    def f(a, b):
        return (a, b), [a, *b, a], {a, 1}, {"k": a, **{"l": b}, "k": 0}, {**{}}, (*b, *b), [], {}, (), {*b}  # noqa: F601

    same(f, 1, [2, 3])


@pytest.mark.parametrize("value", [5, None, [1], {"a": 1}, "ab"], ids=repr)
def test_star_and_double_star(same, value):
    def star(x):
        return [0, *x]

    def star_set(x):
        return {0, *x}

    def double_star(x):
        return {"z": 0, **x}

    for f in (star, star_set, double_star):
        same(f, value)


@pytest.mark.parametrize("value", [[], [1], [1, 2], [1, 2, 3], "xy", {"a": 1, "b": 2}, 5, None, range(2)], ids=repr)
def test_unpacking(same, value):
    def two(x):
        a, b = x
        return a, b

    def starred(x):
        a, *b = x
        return a, b

    def middle(x):
        a, *b, c = x
        return a, b, c

    def last(x):
        *a, b = x
        return a, b

    for f in (two, starred, middle, last):
        same(f, value)


def test_unpacking_takes_no_more_than_it_needs(same):
    def f():
        taken = []

        def numbers():
            n = 0
            while True:
                taken.append(n)
                yield n
                n += 1

        try:
            a, b = numbers()  # noqa: RUF059
        except ValueError as error:
            return taken, str(error)

    same(f)


def test_nested_targets(same):
    def f(x):
        (a, (b, *c)), d = x
        [e, f_] = c
        x[0], y = 1, 2
        return a, b, c, d, e, f_, y

    same(f, [(1, (2, 3, 4)), 5])


def test_slices(same):
    def f(x):
        s = slice(1, None, 2)
        return x[s], x[::-1], x[:2], x[-3:-1], x[1:4:2], s.start, s.step

    same(f, [1, 2, 3, 4, 5])


def test_unhashable(same):
    def in_set():
        return {[]}

    def in_dict():
        return {[]: 1}

    same(in_set)
    same(in_dict)
