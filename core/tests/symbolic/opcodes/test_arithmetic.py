"""Operators, comparisons, subscripts."""

import pytest

PAIRS = [
    (7, 2),
    (7.5, 2),
    (True, 3),
    ("ab", 2),
    ([1], [2]),
    ((1,), (2,)),
    ({1, 2}, {2, 3}),
    ({"a": 1}, {"b": 2}),
    (1, "x"),
    (5, 0),
]


@pytest.mark.parametrize("args", PAIRS, ids=repr)
@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"])
@pytest.mark.parametrize("inplace", [False, True], ids=["plain", "inplace"])
def test_binary(same, symbol, args, inplace):
    scope = {}
    if inplace:
        exec(f"def f(a, b):\n    c = a\n    a {symbol}= b\n    return a, b, c", scope)
    else:
        exec(f"def f(a, b):\n    return a {symbol} b, a, b", scope)
    same(scope["f"], *args)


@pytest.mark.parametrize("args", [*PAIRS, (1, 1.0), (None, None), ([1, 2], [1, 3]), ("a", "b")], ids=repr)
@pytest.mark.parametrize("symbol", ["<", "<=", "==", "!=", ">", ">="])
def test_compare(same, symbol, args):
    scope = {}
    exec(f"def f(a, b):\n    return a {symbol} b", scope)
    same(scope["f"], *args)


@pytest.mark.parametrize("value", [3, -2.5, True, "x", [1]], ids=repr)
@pytest.mark.parametrize("symbol", ["-", "+", "~", "not "])
def test_unary(same, symbol, value):
    scope = {}
    exec(f"def f(a):\n    return {symbol}a", scope)
    same(scope["f"], value)


def test_chained_comparison(same):
    def f(a, b, c):
        return a < b < c, a <= b != c, not (a < b > c)

    same(f, 1, 2, 3)
    same(f, 3, 2, 1)


def test_identity(same):
    def f(a, b):
        c = a
        return a is b, a is c, a is not c, a is not None

    same(f, [1], [1])


def test_membership(same):
    def f(a, b):
        return a in b, a not in b

    same(f, 1, [1, 2])
    same(f, 1, (2,))
    same(f, "a", "abc")
    same(f, "a", {"a": 1})
    same(f, 3, {1, 2})
    same(f, 1, 2)


def test_subscripts(same):
    def f(a, d, s):
        a[0] = a[1]
        del a[-1]
        d["new"] = d["k"], s[1:3], s[::-1], s[-2:]
        del d["k"]
        a[1:2] = [7, 8, 9]
        return a, d

    same(f, [1, 2, 3], {"k": 1}, "hello")


@pytest.mark.parametrize(
    ("container", "key"), [([1], 5), ({"a": 1}, "b"), (3, 0), ("ab", "c"), ((1,), 0), ([1], None)], ids=repr
)
def test_bad_subscripts(same, container, key):
    def read(a, k):
        return a[k]

    def write(a, k):
        a[k] = 1
        return a

    def delete(a, k):
        del a[k]
        return a

    for f in (read, write, delete):
        same(f, container, key)


def test_reflected_operators_of_user_classes(same):
    class Number:
        def __init__(self, n):
            self.n = n

        def __add__(self, other):
            return NotImplemented if isinstance(other, str) else ("add", self.n, other)

        def __radd__(self, other):
            return ("radd", self.n, other)

        def __iadd__(self, other):
            self.n += other
            return self

        def __neg__(self):
            return -self.n

        def __eq__(self, other):
            return "eq"

        __hash__ = None

        def __getitem__(self, key):
            return key

        def __contains__(self, item):
            return item == 1

        def __bool__(self):
            return self.n > 0

    def f(n):
        a = Number(n)
        first = a + 1, 1 + a, -a, a == 1, a[1:2, 3], 1 in a, 2 in a, not a
        a += 5
        return first, a.n

    same(f, 3)
    same(f, 0)


def test_double_negation(same):
    def f(a, b):
        c = not not a
        d = not not (a == b)
        return c, d, not not not b, (not not a) + 1

    same(f, [1], 0)
    same(f, "", "")
