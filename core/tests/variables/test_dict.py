"""Dicts, ordered dicts and dicts with defaults do what Python's do."""

import operator
import types
from collections import OrderedDict, defaultdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

PLAIN = {"a": 1, "b": 2, 3: "c"}
READS = [
    lambda b, d: d["a"],
    lambda b, d: d["z"],
    lambda b, d: d[[1]],
    lambda b, d: d.get("a"),
    lambda b, d: d.get("z"),
    lambda b, d: d.get("z", 7),
    lambda b, d: d.get(),
    lambda b, d: d.get("a", default=1),
    lambda b, d: b(operator.contains)(d, "b"),
    lambda b, d: b(operator.contains)(d, 3.0),
    lambda b, d: b(operator.contains)(d, [1]),
    lambda b, d: b(len)(d),
    lambda b, d: b(bool)(d),
    lambda b, d: b(list)(d),
    lambda b, d: b(list)(d.items()),
    lambda b, d: b(list)(d.values()),
    lambda b, d: b(list)(b(reversed)(d)),
    lambda b, d: b(list)(b(reversed)(d.items())),
    lambda b, d: d.copy(),
    lambda b, d: b(dict)(d),
    lambda b, d: b(dict)(d, a=5, z=6),
    lambda b, d: b(dict)(b(zip)(d, [1, 2, 3])),
    lambda b, d: b(OrderedDict)(d),
    lambda b, d: b(dict)([(1, 2), (3,)]),
    lambda b, d: b(dict)([(1, 2), 3]),
    lambda b, d: b(dict)(5),
    lambda b, d: b(dict.fromkeys)(d, 0),
    lambda b, d: b(dict.fromkeys)("aab"),
    lambda b, d: d | {"a": 9, "q": 1},
    lambda b, d: {"q": 1, "a": 0} | d,
    lambda b, d: d | [("a", 1)],
    lambda b, d: d == {3: "c", "b": 2, "a": 1},
    lambda b, d: d != {3: "c", "b": 2},
    lambda b, d: d == [1],
    lambda b, d: d < d,
    lambda b, d: b(repr)(d),
    lambda b, d: b(repr)(d.keys()),
    lambda b, d: b(str)(d.items()),
    lambda b, d: b(hash)(d),
    lambda b, d: b(types.MappingProxyType)(d)["a"],
    lambda b, d: b(repr)(b(types.MappingProxyType)(d)),
    lambda b, d: b(len)(b(types.MappingProxyType)(d)),
    lambda b, d: d.keys() & {"a", "b", "z"},
    lambda b, d: d.keys() & ["a", "z"],
    lambda b, d: d.keys() | ["z"],
    lambda b, d: d.keys() - {"a"},
    lambda b, d: d.keys() ^ {"a", "q"},
    lambda b, d: {"a", "q"} - d.keys(),
    lambda b, d: {"a", "q"} & d.keys(),
    lambda b, d: d.keys() == {"a", "b", 3},
    lambda b, d: d.keys() >= {"a"},
    lambda b, d: d.keys() < {"a", "b", 3, 4},
    lambda b, d: {"a"} <= d.keys(),
    lambda b, d: d.items() == {("a", 1), ("b", 2), (3, "c")},
    lambda b, d: b(operator.contains)(d.items(), ("a", 1)),
    lambda b, d: b(operator.contains)(d.items(), ("a", 2)),
    lambda b, d: b(operator.contains)(d.items(), "a"),
    lambda b, d: b(operator.contains)(d.values(), 2),
    lambda b, d: d.values() == d.values(),
    lambda b, d: d.keys().isdisjoint(["q"]),
    lambda b, d: d.keys().mapping["a"],
    lambda b, d: d.keys()[0],
    lambda b, d: d.nothing,
    lambda b, d: b(sorted)(d.keys(), key=lambda k: b(str)(k)),
    lambda b, d: b("{0[a]} {b}".format)(d, b=3),
    lambda b, d: b(operator.mod)("%(a)s-%(b)05d", d),
    lambda b, d: b("{a}".format)(**{"a": d["a"]}),
]
CHANGES = [
    lambda b, d: d.__setitem__("a", 9),
    lambda b, d: d.__setitem__("new", 9),
    lambda b, d: d.__setitem__([], 9),
    lambda b, d: d.__delitem__("a"),
    lambda b, d: d.__delitem__("z"),
    lambda b, d: d.pop("a"),
    lambda b, d: d.pop("z"),
    lambda b, d: d.pop("z", None),
    lambda b, d: d.popitem(),
    lambda b, d: d.setdefault("a", 5),
    lambda b, d: d.setdefault("z", 5),
    lambda b, d: d.setdefault("z"),
    lambda b, d: d.clear(),
    lambda b, d: d.update({"a": 3, "k": 4}),
    lambda b, d: d.update([("a", 3), ("k", 4)]),
    lambda b, d: d.update(a=3, k=4),
    lambda b, d: d.update({"x": 1}, a=3),
    lambda b, d: d.update(b(types.MappingProxyType)({"a": 1, "m": 2})),
    lambda b, d: d.update(1, 2),
    lambda b, d: d.update([1]),
    lambda b, d: d.__ior__([("a", 3)]),
]


@pytest.mark.parametrize("number", range(len(READS)))
@pytest.mark.parametrize("cls", [dict, OrderedDict, lambda d: defaultdict(list, d)])
def test_reading(same, number, cls):
    if cls is OrderedDict and number in (36, 37):
        cls = dict
    same(READS[number], cls(PLAIN))


@pytest.mark.parametrize("number", range(len(CHANGES)))
@pytest.mark.parametrize("content", [PLAIN, {}])
@pytest.mark.parametrize("cls", [dict, OrderedDict])
def test_changing(same, number, content, cls):
    same(CHANGES[number], cls(content))


def test_order_after_removing_and_storing_again(same):
    def fn(b, d):
        v = d.pop("a")
        d["n"] = 1
        d["a"] = v
        d["b"] = 7
        return b(list)(d.items()), b(len)(d)

    same(fn, PLAIN)


def test_removing_what_was_stored_before(same):
    def fn(b, d):
        d["a"] = 1
        d["q"] = 2
        del d["a"]
        del d["q"]

    same(fn, PLAIN)


def test_key_that_was_there_stays(same):
    def fn(b, d):
        d[True] = "changed"
        d[2.0] = "new"
        d[2] = "newer"
        return d

    same(fn, {1: "one"})


def test_storing_asks_for_nothing(traced):
    def fn(b, d):
        d["a"] = 5

    _, (d,), tx = traced(fn, {"a": 1, "b": 2, "c": 3})
    assert d == {"a": 5, "b": 2, "c": 3}
    assert [str(g) for g in tx.capture.guards] == ["L['a0']: type dict"]


def test_absent_key_is_guarded(traced):
    _, _, tx = traced(lambda b, d: d.get("z"), {"a": 1})
    assert "L['a0']: dict_lacks 'z'" in [str(g) for g in tx.capture.guards]


def test_iteration_guards_all_keys(traced):
    _, _, tx = traced(lambda b, d: b(list)(d), {"a": 1, "b": 2})
    assert "L['a0']: keys ('a', 'b')" in [str(g) for g in tx.capture.guards]


def test_sizes_may_not_change_while_iterated(same):
    def fn(b, d):
        for key in d:
            d[key + "x"] = 1

    def values(b, d):
        total = 0
        for key, value in d.items():
            d[key] = value + 1
            total = total + value
        return total

    for cls in (dict, OrderedDict):
        same(fn, cls(a=1, b=2))
        same(fn, cls(a=1))
        same(values, cls(a=1, b=2))


def test_views_are_live(same):
    def fn(b, d):
        keys, items = d.keys(), d.items()
        d["n"] = 1
        return b(list)(keys), b(len)(items), items

    same(fn, PLAIN)


def test_ordered_dicts(same):
    def fn(b, d):
        d.move_to_end("a")
        d.move_to_end("c", last=False)
        first = d.popitem(last=False)
        d["n"] = 5
        return first, b(list)(d), d == b(OrderedDict)(b=2, a=1, n=5), d == b(dict)(n=5, a=1, b=2)

    same(fn, OrderedDict(a=1, b=2, c=3))
    same(lambda b, d: d.move_to_end("q"), OrderedDict(a=1))
    same(lambda b, d: d.popitem(), OrderedDict())
    same(lambda b, d: b(repr)(d), OrderedDict(a=1, b=[2]))
    same(lambda b, d: d == b(OrderedDict)(b=1, a=1), OrderedDict(a=1, b=1))


def test_default_factories(same):
    def fn(b, d):
        d["a"].append(1)
        d["n"].append(2)
        missing = d.get("q")
        return d, missing, b(operator.contains)(d, "q"), d.copy(), b(repr)(d["x"])

    same(fn, defaultdict(list, a=[0]))
    same(lambda b, d: d["q"], defaultdict(None, a=1))
    same(lambda b, d: b(defaultdict)(5), {})
    same(lambda b, d: b(defaultdict)(int, d, z=1)["new"], {"a": 1})
    same(lambda b, d: d | {"q": 1}, defaultdict(int, a=1))
    same(lambda b, d: {"q": 1} | d, defaultdict(int, a=1))


def test_cycle_through_a_dict(traced):
    def fn(b, d):
        d["self"] = d
        e = b(dict)()
        e["self"] = e
        return e

    (_, e), (d,), _ = traced(fn, {})
    assert e["self"] is e
    assert d["self"] is d


def test_new_content_may_come_from_the_old(same):
    def fn(b, d):
        old = d.copy()
        d.clear()
        for key in b(reversed)(b(list)(old)):
            d[key] = old[key]
        return d

    same(fn, PLAIN)


keys = st.sampled_from(["a", "b", "c", 1, True, 2.0])
steps = st.lists(
    st.tuples(
        st.sampled_from(["store", "pop", "delete", "setdefault", "get", "len", "update", "popitem", "clear"]), keys
    ),
    max_size=8,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(keys, st.integers()), steps, st.booleans())
@example({"a": 0, "b": 0}, [("pop", "a"), ("store", "a"), ("popitem", "a")], False)
@example({"a": 0, "b": 0}, [("popitem", "a"), ("store", "z"), ("popitem", "a"), ("popitem", "a")], False)
def test_any_history(run_both, start, history, ordered):
    def fn(b, d):
        seen = b(list)()
        for number, (name, key) in enumerate(history):
            if name == "store":
                d[key] = number
            elif name == "delete":
                if b(operator.contains)(d, key):
                    del d[key]
            elif name == "len":
                seen.append(b(len)(d))
            elif name == "update":
                d.update({key: number, "z": number})
            elif name == "popitem":
                if d:
                    seen.append(d.popitem())
            elif name == "clear":
                d.clear()
            else:
                seen.append(getattr(d, name)(key, number))
        return seen

    run_both(fn, OrderedDict(start) if ordered else start)
