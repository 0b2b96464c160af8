"""f-strings."""

import pytest

FORMATS = [
    "f'{a}'",
    "f'{a!r:>8}|{b:.3f}'",
    "f'{a!s}{a!a}'",
    "f'{b:{w}.{p}f}'",
    "f'plain'",
    "f'{{}}{a=}'",
    "f'{[a, b]} {(a,)} { {1: a} }'",
    "f'{None} {True}'",
    "f'{a:d}'",
    "'%s-%d' % (a, 3)",
    "f'{b:>+10}'",
]


@pytest.mark.parametrize("expression", FORMATS)
def test_formats(same, expression):
    scope = {}
    exec(f"def f(a, b, w=9, p=2):\n    return {expression}", scope)
    same(scope["f"], "tèxt", 3.14159, 9, 2)


def test_user_format(same):
    class Money:
        def __init__(self, n):
            self.n = n

        def __format__(self, spec):
            return f"<{spec}:{self.n}>"

        def __repr__(self):
            return f"Money({self.n!r})"

        def __str__(self):
            return "money"

    def f():
        m = Money(3)
        return f"{m:x}", f"{m!r}", f"{m!s}", f"{m}"

    same(f)
