"""Calls."""

import functools

import pytest


def target(a, b=2, /, c=3, *rest, d, e=5, **named):
    return a, b, c, rest, d, e, named


CALLS = [
    "target(1, d=4)",
    "target(1, 2, 3, 4, 5, d=6, z=7)",
    "target(*[1, 2], d=1, **{'x': 1, 'y': 2})",
    "target(1, *(2, 3), *[4], d=0, **{'k': 1}, **{'l': 2})",
    "target()",
    "target(1)",
    "target(1, a=3, d=1)",
    "target(1, c=1, d=2, **{'d': 3})",
    "target(1, *5, d=1)",
    "target(1, d=1, **5)",
    "target(1, d=1, **{1: 2})",
    "(lambda *a, **k: (a, k))(*'ab', **dict(q=1))",
    "(lambda: 0)(1)",
    "'x'.join(['a', 'b'])",
    "'{}-{k}'.format(1, k=2)",
    "[3, 1, 2].index(1)",
    "dict(a=1, **{'b': 2})",
    "max(3, 7)",
    "sorted([3, 1, 2], key=lambda x: -x)",
    "functools.reduce(lambda a, b: a * b, [1, 2, 3, 4])",
    "functools.partial(target, 1, d=2)(3, e=4)",
    "'abc'.nothing()",
    "list(map(str, [1, 2]))",
]


@pytest.mark.parametrize("expression", CALLS)
def test_calls(same, expression):
    scope = {"target": target, "functools": functools}
    exec(f"def f():\n    return {expression}", scope)
    same(scope["f"])


def test_methods_and_properties(same):
    class Base:
        kind = "base"

        def __init__(self, n):
            self.n = n

        def double(self):
            return self.n * 2

        @property
        def half(self):
            return self.n / 2

        @classmethod
        def make(cls, n):
            return cls(n + 1)

        @staticmethod
        def helper(x):
            return x, "static"

        def __call__(self, *args):
            return args, self.n

    class Derived(Base):
        kind = "derived"

        def __init__(self, n):
            super().__init__(n)
            self.extra = super().double()

        def double(self):
            return super(Derived, self).double() + 1

        @classmethod
        def make(cls, n):
            return super().make(n * 10)

    def f(n):
        d = Derived.make(n)
        method = d.double
        return d.n, d.extra, method(), d.half, d.helper(1), Derived.helper(2), d(1, 2), d.kind, Base.double(d)

    same(f, 4)


def test_super_outside_of_a_class(same):
    def no_arguments():
        return super()

    def no_cell(x):
        return super()

    def deleted(x):
        __class__ = int
        del x
        (lambda: __class__)
        return super()

    same(no_arguments)
    same(no_cell, 1)


def test_decorators(same):
    def twice(fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            return fn(*args, **kwargs) * 2

        return inner

    def f(x):
        @twice
        def g(a, *, b=1):
            return a + b

        return g(x), g(x, b=5), g.__name__

    same(f, 3)


def test_recursion(same):
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    same(fib, 9)


def test_evaluation_order(same):
    def f():
        log = []

        def note(x):
            log.append(x)
            return x

        note(note("f") and (lambda *a, **k: "r"))
        (note(dict))(**{note("a"): note(1)}, b=note(2))
        {note("k"): note("v"), note("k2"): note("v2")}
        [note(1), *note([2]), note(3)]
        note([0])[note(0)] = note("value")
        return [x for x in log if isinstance(x, (str, int))]

    same(f)
