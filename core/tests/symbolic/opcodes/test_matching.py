"""`match` statements."""

from dataclasses import dataclass

import pytest


@dataclass
class Point:
    x: int
    y: int


class NoArgs:
    def __init__(self):
        self.a = 1


def describe(value):
    match value:
        case None:
            return "none"
        case True | False:
            return "bool"
        case int(n) if n > 100:
            return ("big", n)
        case int() | float():
            return "number"
        case "a" | "b" as letter:
            return ("letter", letter)
        case str(s):
            return ("str", s)
        case []:
            return "empty"
        case [x]:
            return ("one", x)
        case [1, *rest]:
            return ("starts with one", rest)
        case (a, b, *_, z):
            return ("several", a, b, z)
        case [a, [b]]:
            return ("nested", a, b)
        case {"kind": "p", "at": [x, y], **others}:
            return ("dict", x, y, others)
        case {"k": v}:
            return ("k", v)
        case {}:
            return "mapping"
        case _:
            return "other"


VALUES = [
    None, True, 5, 200, 1.5, "a", "zz", [], [9], [1, 2, 3], [2, 3, 4, 5], [2, [3]], (1,),
    {"kind": "p", "at": [1, 2], "z": 3}, {"k": 1, "l": 2}, {}, {1, 2}, b"x",
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_match(same, value):
    same(describe, value)


def test_classes(same):
    def f(x, y):
        out = []
        for p in (Point(x, y), NoArgs(), 3):
            match p:
                case Point(0, y=q):
                    out.append(("zero", q))
                case Point(a, b):
                    out.append((a, b))
                case NoArgs(missing=1):
                    out.append("missing")
                case NoArgs(a=v):
                    out.append(("noargs", v))
                case _:
                    out.append("other")
        return out

    same(f, 0, 2)
    same(f, 1, 2)


def test_class_pattern_errors(same):
    def too_many():
        match Point(1, 2):
            case Point(1, 2, 3):
                return 1

    def none_allowed():
        match NoArgs():
            case NoArgs(1):
                return 1

    def twice():
        match Point(1, 2):
            case Point(1, x=1):
                return 1

    def no_class():
        kind = 5
        match 3:
            case kind():
                return 1

    for f in (too_many, none_allowed, twice, no_class):
        same(f)
