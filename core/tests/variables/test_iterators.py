"""The lazy iterators of the builtins and of itertools, and functions over iterables."""

import itertools
import operator

import pytest

CASES = [
    lambda b, x: b(list)(b(enumerate)(x)),
    lambda b, x: b(list)(b(enumerate)(x, 5)),
    lambda b, x: b(list)(b(enumerate)(x, start=2)),
    lambda b, x: b(enumerate)(x, "a"),
    lambda b, x: b(enumerate)(),
    lambda b, x: b(enumerate)(5),
    lambda b, x: b(list)(b(zip)(x, "ab")),
    lambda b, x: b(list)(b(zip)(x, "ab", strict=True)),
    lambda b, x: b(list)(b(zip)("ab", x, strict=True)),
    lambda b, x: b(list)(b(zip)(x, x, "ab", strict=True)),
    lambda b, x: b(list)(b(zip)()),
    lambda b, x: b(zip)(x, 5),
    lambda b, x: b(list)(b(map)(lambda v: v + 1, x)),
    lambda b, x: b(list)(b(map)(lambda v, w: v + w, x, [10, 20])),
    lambda b, x: b(map)(5),
    lambda b, x: b(list)(b(filter)(lambda v: v > 1, x)),
    lambda b, x: b(list)(b(filter)(None, [0, 1, "", "a"])),
    lambda b, x: b(list)(b(itertools.filterfalse)(None, [0, 1, "", "a"])),
    lambda b, x: b(next)(b(iter)(x)),
    lambda b, x: b(next)(b(iter)(b(list)()), "none"),
    lambda b, x: b(next)(b(iter)(b(list)())),
    lambda b, x: b(next)(x),
    lambda b, x: b(list)(b(iter)(b(iter)(x).__next__, 2)),
    lambda b, x: b(iter)(5, 6),
    lambda b, x: b(iter)(5),
    lambda b, x: b(list)(b(reversed)("abc")),
    lambda b, x: b(reversed)({1, 2}),
    lambda b, x: b(reversed)(5),
    lambda b, x: b(list)(b(itertools.chain)(x, "ab", b(range)(2))),
    lambda b, x: b(list)(b(itertools.chain)(x, 5)),
    lambda b, x: b(list)(b(itertools.chain.from_iterable)([x, x])),
    lambda b, x: b(list)(b(itertools.islice)(x, 2)),
    lambda b, x: b(list)(b(itertools.islice)(x, 1, None)),
    lambda b, x: b(list)(b(itertools.islice)(x, 0, 3, 2)),
    lambda b, x: b(itertools.islice)(x, -1),
    lambda b, x: b(itertools.islice)(x, "a"),
    lambda b, x: b(list)(b(itertools.islice)(b(itertools.count)(5, 2), 3)),
    lambda b, x: b(list)(b(itertools.islice)(b(itertools.count)(0.5), 2)),
    lambda b, x: b(itertools.count)("a"),
    lambda b, x: b(list)(b(itertools.islice)(b(itertools.cycle)(x), 7)),
    lambda b, x: b(list)(b(itertools.cycle)(b(list)())),
    lambda b, x: b(list)(b(itertools.repeat)(1, 3)),
    lambda b, x: b(list)(b(itertools.repeat)(1, times=-3)),
    lambda b, x: b(itertools.repeat)(1, "a"),
    lambda b, x: b(list)(b(itertools.combinations)(x, 2)),
    lambda b, x: b(itertools.combinations)(x, -1),
    lambda b, x: b(list)(b(itertools.permutations)(x)),
    lambda b, x: b(list)(b(itertools.permutations)(x, 2)),
    lambda b, x: b(list)(b(itertools.combinations_with_replacement)(x, 2)),
    lambda b, x: b(list)(b(itertools.product)(x, "ab")),
    lambda b, x: b(list)(b(itertools.product)(x, repeat=2)),
    lambda b, x: b(list)(b(itertools.product)()),
    lambda b, x: b(list)(b(itertools.product)(x, repeat=0)),
    lambda b, x: b(any)(b(map)(lambda v: v > 2, x)),
    lambda b, x: b(all)(b(map)(lambda v: v > 2, x)),
    lambda b, x: b(any)(5),
    lambda b, x: b(min)(x, key=lambda v: -v),
    lambda b, x: b(min)(3, 1, 2),
    lambda b, x: b(min)(b(list)()),
    lambda b, x: b(max)(b(list)(), default=0),
    lambda b, x: b(max)(1, 2, default=0),
    lambda b, x: b(max)(),
    lambda b, x: b(max)(5),
    lambda b, x: b(sum)([[1], [2]], b(list)()),
    lambda b, x: b(sum)([0.1] * 10),
    lambda b, x: b(sum)(["a"]),
    lambda b, x: b(sum)([True, 2]),
    lambda b, x: b(sorted)(x, key=lambda v: -v),
    lambda b, x: b(sorted)(x, lambda v: -v),
    lambda b, x: b(operator.itemgetter(1))(x) if False else b(operator.itemgetter)(1)(x),
    lambda b, x: b(operator.itemgetter)(0, 2)(x),
    lambda b, x: b(operator.itemgetter)(9)(x),
    lambda b, x: b(operator.attrgetter)("real")(x[0]),
    lambda b, x: b(operator.attrgetter)(5),
    lambda b, x: b(operator.methodcaller)("count", 2)(x),
    lambda b, x: b(list)(b(itertools.chain)(x, x)),
    lambda b, x: b(enumerate)(b(iter)(x)),
    lambda b, x: b(zip)(x, x),
    lambda b, x: b(itertools.chain)(x, "a"),
    lambda b, x: b(iter)(x).__length_hint__(),
    lambda b, x: b(operator.contains)(b(iter)(x), 2),
    lambda b, x: b(tuple)(v for v in x),
    lambda b, x: b(dict)(b(enumerate)(x)),
    lambda b, x: b(set)(b(map)(lambda v: v % 2, x)),
    lambda b, x: b(len)(b(map)(lambda v: v, x)),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_iterators(same, number):
    same(CASES[number], [1, 2, 3])


def test_zip_stops_where_python_stops(same):
    def fn(b, x):
        first, second = b(iter)(x), b(iter)([1])
        pairs = b(list)(b(zip)(first, second))
        return pairs, b(list)(first)

    same(fn, [1, 2, 3, 4])


def test_islice_takes_no_more_than_it_needs(same):
    def fn(b, x):
        it = b(iter)(x)
        part = b(list)(b(itertools.islice)(it, 1, 3))
        return part, b(list)(it)

    same(fn, [1, 2, 3, 4])


def test_partly_used_iterators_are_rebuilt(same):
    def enumerated(b, x):
        it = b(enumerate)(x)
        b(next)(it)
        return it

    def chained(b, x):
        it = b(itertools.chain)(x, [7])
        b(next)(it)
        return it

    def repeated(b, x):
        it = b(itertools.repeat)(x[0], 3)
        b(next)(it)
        return it

    for fn in (enumerated, chained, repeated):
        same(fn, [1, 2, 3])
