"""Lists do what Python's lists do."""

import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

READS = [
    lambda b, x: x[0],
    lambda b, x: x[-1],
    lambda b, x: x[1:],
    lambda b, x: x[::-1],
    lambda b, x: x[b(slice)(None, None, 2)],
    lambda b, x: x["a"],
    lambda b, x: x[1.0],
    lambda b, x: b(len)(x),
    lambda b, x: x + [9],
    lambda b, x: x + (9,),
    lambda b, x: x * 2,
    lambda b, x: 2 * x,
    lambda b, x: x * "a",
    lambda b, x: x * -1,
    lambda b, x: x == [1, 2, 3],
    lambda b, x: x < [1, 2, 4],
    lambda b, x: x < 3,
    lambda b, x: x >= [1],
    lambda b, x: x != (1, 2, 3),
    lambda b, x: x.index(2),
    lambda b, x: x.index(2, 2),
    lambda b, x: x.index(2, 0, -1),
    lambda b, x: x.index(77),
    lambda b, x: x.index("x", "y"),
    lambda b, x: x.count(2),
    lambda b, x: x.count(),
    lambda b, x: x.copy(),
    lambda b, x: x.nothing,
    lambda b, x: b(list)(b(reversed)(x)),
    lambda b, x: b(repr)(x),
    lambda b, x: b(str)([x, x]),
    lambda b, x: b(format)(x, ">3"),
    lambda b, x: b(hash)(x),
    lambda b, x: b(tuple)(x),
    lambda b, x: x.__len__(),
    lambda b, x: x.__contains__(2),
    lambda b, x: b(min)(x),
    lambda b, x: b(max)(x, default=3),
    lambda b, x: b(sum)(x),
    lambda b, x: b(sum)(x, 0.5),
    lambda b, x: b(sum)(x, "a"),
    lambda b, x: b(sorted)(x, reverse=True),
    lambda b, x: b(bool)(x),
    lambda b, x: -x,
    lambda b, x: x & x,
    lambda b, x: x(1),
]

CHANGES = [
    lambda b, x: x.append(5),
    lambda b, x: x.append(),
    lambda b, x: x.append(1, 2),
    lambda b, x: x.append(object=3),
    lambda b, x: x.extend((4, 5)),
    lambda b, x: x.extend(x),
    lambda b, x: x.extend("ab"),
    lambda b, x: x.extend(5),
    lambda b, x: x.extend(b(map)(lambda v: v + 1, x.copy())),
    lambda b, x: x.insert(1, 9),
    lambda b, x: x.insert(-100, 9),
    lambda b, x: x.insert("a", 9),
    lambda b, x: x.pop(),
    lambda b, x: x.pop(0),
    lambda b, x: x.pop(10),
    lambda b, x: x.pop("a"),
    lambda b, x: x.pop(1, 2),
    lambda b, x: x.remove(2),
    lambda b, x: x.remove(77),
    lambda b, x: x.clear(),
    lambda b, x: x.reverse(),
    lambda b, x: x.sort(reverse=True),
    lambda b, x: x.sort(key=lambda v: -v),
    lambda b, x: x.sort(lambda v: -v),
    lambda b, x: x.sort(reverse="a"),
    lambda b, x: x.__setitem__(0, 7),
    lambda b, x: x.__setitem__(9, 7),
    lambda b, x: x.__delitem__(0),
    lambda b, x: x.__delitem__(9),
    lambda b, x: x.__iadd__([1]),
    lambda b, x: x.__imul__(2),
    lambda b, x: x.__imul__(0),
    lambda b, x: b(setattr)(x, "a", 1),
]


@pytest.mark.parametrize("number", range(len(READS)))
def test_reading(same, number):
    same(READS[number], [1, 2, 3])


@pytest.mark.parametrize("number", range(len(CHANGES)))
@pytest.mark.parametrize("items", [[1, 2, 3], []])
def test_changing(same, number, items):
    same(CHANGES[number], items)


def test_slices_are_assigned(same):
    def fn(b, x, y):
        x[1:2] = y
        x[:0] = b(iter)((7, 8))
        del x[-1:]
        x[::2] = b(list)(x[::2])
        return x

    same(fn, [1, 2, 3], [4, 5, 6])


@pytest.mark.parametrize("value", [5, [1], "abc"])
def test_extended_slice_needs_as_many(same, value):
    def fn(b, x):
        x[::2] = value

    same(fn, [1, 2, 3, 4])


def test_in_place_keeps_identity(same):
    def fn(b, x, y):
        z = x
        x += y
        x *= 2
        return b(operator.is_)(z, x), z == x, x

    same(fn, [1], [2])


def test_what_came_before_an_exception_stays(same):
    def fn(b, x):
        def items():
            yield 1
            raise KeyError("stop")

        x.extend(b(map)(lambda v: 6 // v, [1, 2, 0, 4]))

    same(fn, [9])


def test_iteration_sees_changes(same):
    def fn(b, x):
        seen = b(list)()
        for item in x:
            seen.append(item)
            if item < 6:
                x.append(item * 2)
        return seen

    same(fn, [1, 2])


def test_exhausted_iterator_stays_so(same):
    def fn(b, x):
        it = b(iter)(x)
        first = b(list)(it)
        x.append(3)
        return first, b(list)(it), b(next)(it, "end")

    same(fn, [1, 2])


def test_iterator_is_rebuilt_at_its_position(same):
    def fn(b, x):
        it = b(iter)(x)
        b(next)(it)
        return it

    same(fn, [1, 2, 3])


def test_cycles_are_rebuilt(traced):
    def fn(b, x):
        x.append(x)
        y = b(list)()
        y.append(y)
        return y

    (_, y), (x,), _ = traced(fn, [1])
    assert y[0] is y
    assert x[1] is x


def test_repr_of_a_cycle(same):
    def fn(b, x):
        x.append(x)
        text = b(repr)(x)
        x.pop()
        return text

    same(fn, [1])


def test_shared_items_stay_shared(traced):
    def fn(b, x):
        inner = b(list)()
        return b(list)((inner, inner, x, x))

    (_, result), (x,), _ = traced(fn, [1])
    assert result[0] is result[1]
    assert result[2] is result[3] is x


def test_sort_is_stable_and_calls_the_key_in_order(same):
    def fn(b, x):
        seen = b(list)()

        def key(pair):
            seen.append(pair)
            return pair[0]

        x.sort(key=key, reverse=True)
        return seen, b(sorted)(x, key=lambda p: p[1])

    same(fn, [(1, "a"), (2, "b"), (1, "c"), (2, "d")])


def test_order_of_unlike_things(same):
    same(lambda b, x: b(sorted)(x), [1, "a", 2])
    same(lambda b, x: b(max)(x), [1, "a", 2])
    same(lambda b, x: x.sort(), [[1, 2], [1, "a"]])


def test_only_the_length_of_an_untouched_list_is_guarded(traced):
    _, _, tx = traced(lambda b, x: b(len)(x), [1, [2, 3]])
    assert [str(g) for g in tx.capture.guards] == ["L['a0']: type list", "L['a0']: len 2"]


bounds = st.one_of(st.none(), st.integers(-6, 6))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 4), max_size=6),
    bounds,
    bounds,
    st.sampled_from([None, 1, 2, -1, -2]),
    st.lists(st.integers(5, 9), max_size=4),
)
def test_any_slice(run_both, items, start, stop, step, new):
    def read(b, x):
        return x[start:stop:step]

    def write(b, x):
        x[start:stop:step] = new

    def delete(b, x):
        del x[start:stop:step]

    for fn in (read, write, delete):
        run_both(fn, items)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.text("ab", max_size=2))), st.booleans())
def test_any_order(run_both, items, backwards):
    run_both(lambda b, x: x.sort(key=lambda p: p[0], reverse=backwards), items)
    run_both(lambda b, x: b(sorted)(x, reverse=backwards), items)
