"""Tuples, sizes, named tuples, ranges and slices do what Python's do."""

import operator
from collections import namedtuple
from typing import NamedTuple

import pytest
import torch

Point = namedtuple("Point", "x y", defaults=(5,))


class Pair(NamedTuple):
    first: int
    second: object = None

    def swapped(self):
        return (self.second, self.first)

    @property
    def total(self):
        return self.first + 1


def SHOWN(b, t):
    return b(repr)(t)


READS = [
    lambda b, t: t[0],
    lambda b, t: t[5],
    lambda b, t: t["a"],
    lambda b, t: t[1:],
    lambda b, t: t[::-1],
    lambda b, t: t + (1,),
    lambda b, t: (1,) + t,
    lambda b, t: t + [1],
    lambda b, t: t * 2,
    lambda b, t: 3 * t,
    lambda b, t: t * 1.5,
    lambda b, t: t.index(2),
    lambda b, t: t.index(9),
    lambda b, t: t.count(1),
    lambda b, t: b(len)(t),
    lambda b, t: b(list)(t),
    lambda b, t: b(tuple)(t),
    lambda b, t: t == (1, 2),
    lambda b, t: (1, 2) == t,
    lambda b, t: t < (1, 3),
    lambda b, t: t >= [1],
    lambda b, t: b(hash)(t),
    lambda b, t: b(dict)([(t, 1)])[(1, 2)],
    SHOWN,
    lambda b, t: b(operator.contains)(t, 2),
    lambda b, t: b(list)(b(reversed)(t)),
    lambda b, t: b(operator.setitem)(t, 0, 1),
    lambda b, t: b(operator.delitem)(t, 0),
    lambda b, t: b(isinstance)(t, tuple),
    lambda b, t: b(type)(t),
    lambda b, t: b(setattr)(t, "a", 1),
    lambda b, t: b(sum)(t),
    lambda b, t: b(operator.mod)("%s and %s", t),
]


@pytest.mark.parametrize("number", range(len(READS)))
@pytest.mark.parametrize("value", [(1, 2), torch.Size((1, 2)), Point(1, 2), Pair(1, 2)])
def test_reading(same, number, value):
    if hasattr(value, "_fields") and READS[number] is SHOWN:
        pytest.skip("the text of a named tuple is made by Python code, which needs a translator")
    same(READS[number], value)


def test_named_tuples(same):
    same(lambda b, p: (p.x, p.y, p.x + p.y), Point(1, 2))
    same(lambda b, p: p.z, Point(1, 2))
    same(lambda b, p: b(hasattr)(p, "x"), Point(1, 2))
    same(lambda b, p: b(operator.attrgetter("x"))(b(list)([p])[0]) if False else p.x, Point(1, 2))
    same(lambda b, p: p.total, Pair(1, 2))


def test_torch_result_types(same):
    value = torch.return_types.max((1, 2))
    same(lambda b, r: (r.values, r.indices, r[0], b(len)(r), r[:1]), value)
    same(lambda b, r: r, value)


def test_numel_of_a_size(same):
    same(lambda b, s: s.numel(), torch.Size((2, 3, 4)))


def test_comparing_looks_at_identity_first(same):
    nan = float("nan")
    same(lambda b, t: t == t, (nan,))
    same(lambda b, t: b(operator.contains)(t, t[0]), (nan, 1))
    same(lambda b, t: t == (float("nan"),), (nan,))


def test_constant_tuples_need_no_guard_to_be_rejected(traced):
    _, _, tx = traced(lambda b, t: b(len)(t), ([1], 2))
    assert [str(g) for g in tx.capture.guards] == ["L['a0']: type tuple", "L['a0']: len 2"]


RANGES = [
    lambda b, r: b(list)(r),
    lambda b, r: r[1],
    lambda b, r: r[-1],
    lambda b, r: r[50],
    lambda b, r: r[1:],
    lambda b, r: b(len)(r),
    lambda b, r: b(operator.contains)(r, 3),
    lambda b, r: b(operator.contains)(r, "a"),
    lambda b, r: r.index(3),
    lambda b, r: r.index(99),
    lambda b, r: r.count(3),
    lambda b, r: r.start + r.stop + r.step,
    lambda b, r: b(list)(b(reversed)(r)),
    lambda b, r: r == b(range)(1, 10, 2),
    lambda b, r: r < r,
    lambda b, r: b(hash)(r),
    lambda b, r: b(repr)(r),
    lambda b, r: b(bool)(r),
    lambda b, r: r,
    lambda b, r: b(range)(r),
    lambda b, r: b(range)(1, 2, 0),
    lambda b, r: b(range)(),
    lambda b, r: b(max)(r),
]


@pytest.mark.parametrize("number", range(len(RANGES)))
def test_ranges(same, number):
    same(RANGES[number], range(1, 10, 2))


SLICES = [
    lambda b, s: (s.start, s.stop, s.step),
    lambda b, s: s.indices(5),
    lambda b, s: s == b(slice)(1, 3),
    lambda b, s: s < b(slice)(1, 4),
    lambda b, s: b(repr)(s),
    lambda b, s: b(list)("abcdef"[1:4]),
    lambda b, s: b(list)([1, 2, 3, 4])[s],
    lambda b, s: b(hash)(s),
    lambda b, s: b(list)(s),
    lambda b, s: b(len)(s),
]


@pytest.mark.parametrize("number", range(len(SLICES)))
def test_slices(same, number):
    same(SLICES[number], slice(1, 3))
