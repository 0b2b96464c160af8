"""Guard trees: accessors, checks, slots, relations, explanations, lifetimes."""

import collections
import gc
import weakref
from types import FunctionType, ModuleType
from typing import Any

import pytest


def plain(*args: object) -> None: ...


GLOBAL_VALUE = ["global"]


def with_closure() -> tuple[FunctionType, Any]:
    kept = "cell value"
    if kept is None:
        missing = 1

    def inner() -> object:
        return kept, missing  # type: ignore[name-defined]

    return inner, kept  # type: ignore[return-value]


class Plain:
    answer = 42

    def __init__(self) -> None:
        self.x = 1

    @property
    def computed(self) -> str:
        return "computed"

    @property
    def failing(self) -> str:
        raise ValueError("no")


class Slotted:
    __slots__ = ("a",)


# ---------------------------------------------------------------- accessors


def test_root_accessors(native: ModuleType) -> None:
    function, _ = with_closure()
    kept = object()
    tree = native.GuardTree(
        [
            ("local", 1, [], [], 0),
            ("globals", None, [], [("dict_item", "GLOBAL_VALUE", [], [], 1)], -1),
            ("builtins", None, [], [("dict_item", "len", [], [], 2)], -1),
            ("closure_cell", 0, [], [("cell_contents", None, [], [], 3)], -1),
            ("function", None, [], [], 4),
            ("constant", kept, [], [], 5),
            ("object", Plain, [], [("attr", "answer", [], [], 6)], -1),
        ],
        7,
    )
    fetched = tree.fetch((0, 1), function)
    assert fetched == (1, GLOBAL_VALUE, len, "cell value", function, kept, 42)
    assert fetched[1] is GLOBAL_VALUE


CHILDREN = [
    (Plain(), [("attr", "computed")], "computed"),
    (Plain(), [("instance_dict", None), ("dict_item", "x")], 1),
    (Plain, [("instance_dict", None), ("dict_item", "answer")], 42),
    ({"a": 1}, [("dict_item", "a")], 1),
    (collections.OrderedDict(a=1), [("dict_item", "a")], 1),
    ({"a": 1, "b": 2}, [("dict_key", 1)], "b"),
    ([1, 2], [("index", 1)], 2),
    ((1, 2), [("index", 0)], 1),
    (collections.namedtuple("P", "u v")(3, 4), [("index", 1)], 4),
    (collections.deque([5]), [("item", 0)], 5),
    ({"k": 6}, [("item", "k")], 6),
    (3, [("type", None)], int),
    (Plain(), [("type", None), ("mro_attr", "answer")], 42),
]


@pytest.mark.parametrize(("value", "path", "expected"), CHILDREN)
def test_child_accessors(tree_of: Any, value: object, path: list[tuple[str, Any]], expected: object) -> None:
    assert tree_of(path=path, slot=0).fetch((value,), plain) == (expected,)


FAILING = [
    (Plain(), [("attr", "missing")]),
    (Plain(), [("attr", "failing")]),
    (3, [("instance_dict", None)]),
    ({}, [("dict_item", "a")]),
    ([1], [("dict_item", 0)]),
    ({}, [("dict_key", 0)]),
    ([], [("index", 0)]),
    ("ab", [("index", 0)]),
    ({}, [("item", "a")]),
    (3, [("item", 0)]),
    (int, [("mro_attr", "missing")]),
    (3, [("mro_attr", "real")]),
    (3, [("cell_contents", None)]),
]


@pytest.mark.parametrize(("value", "path"), FAILING)
def test_a_failing_fetch_fails_the_guard_and_leaves_no_exception(
    tree_of: Any, value: object, path: list[tuple[str, Any]]
) -> None:
    tree = tree_of(path=path, slot=0)
    assert not tree.check((value,), plain)
    assert tree.fetch((value,), plain) is None
    got_path, check = tree.first_failure((value,), plain)
    assert check == ("fetch",)
    assert got_path == (("local", 0), *path)


def test_missing_argument_fails(tree_of: Any) -> None:
    assert not tree_of().check((), plain)


def test_dict_subclass_methods_are_not_called(passes: Any) -> None:
    class Loud(dict):
        def __getitem__(self, key: object) -> object:
            raise AssertionError("user code ran")

        def __len__(self) -> int:
            raise AssertionError("user code ran")

        def __iter__(self) -> Any:
            raise AssertionError("user code ran")

        def __contains__(self, key: object) -> bool:
            raise AssertionError("user code ran")

    value = Loud(a=1)
    assert passes(value, ("eq", 1), path=[("dict_item", "a")])
    assert passes(value, ("len", 1), ("keys", ("a",)), ("dict_has", "a"), ("dict_lacks", "b"))


def test_ordered_dict_uses_its_own_order(passes: Any, tree_of: Any) -> None:
    value = collections.OrderedDict(a=1, b=2)
    value.move_to_end("a")
    assert passes(value, ("keys", ("b", "a")))
    assert not passes(value, ("keys", ("a", "b")))
    assert tree_of(path=[("dict_key", 0)], slot=0).fetch((value,), plain) == ("b",)


def test_keyboard_interrupt_in_a_guard_is_not_lost(tree_of: Any) -> None:
    class Interrupting:
        @property
        def x(self) -> object:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tree_of(path=[("attr", "x")]).check((Interrupting(),), plain)


# ---------------------------------------------------------------- checks


class ListChild(list):
    pass


OBJECT = object()
HOLDING: list[tuple[object, tuple[Any, ...]]] = [
    (True, ("type", bool)),
    (OBJECT, ("id", OBJECT)),
    (Plain, ("id", Plain)),
    ([1, 2], ("len", 2)),
    (ListChild([1]), ("len", 1)),
    ((), ("len", 0)),
    ({1, 2}, ("len", 2)),
    (frozenset({1}), ("len", 1)),
    ("abc", ("len", 3)),
    (b"ab", ("len", 2)),
    (collections.deque([1]), ("len", 1)),
    ({"a": 1, 2: 3}, ("keys", ("a", 2))),
    ({OBJECT: 1}, ("keys", (OBJECT,))),
    ({Plain: 1}, ("keys", (Plain,))),
    ({"a": 1}, ("dict_has", "a")),
    ({"a": 1}, ("dict_lacks", "b")),
    ([], ("truth", False)),
    ([0], ("truth", True)),
]
NOT_HOLDING: list[tuple[object, tuple[Any, ...]]] = [
    (True, ("type", int)),
    (object(), ("id", OBJECT)),
    ([1, 2], ("len", 3)),
    (3, ("len", 3)),
    ({"a": 1, "b": 2}, ("keys", ("b", "a"))),
    ({1: 1}, ("keys", (True,))),
    ({1: 1}, ("keys", (1.0,))),
    ({"a": 1, "b": 2}, ("keys", ("a",))),
    ([], ("keys", ())),
    ({object(): 1}, ("keys", (OBJECT,))),
    ({"a": 1}, ("dict_has", "b")),
    ([1], ("dict_has", 1)),
    ({"a": 1}, ("dict_lacks", "a")),
    ([1], ("dict_lacks", 2)),
    ([], ("truth", True)),
    ([], ("absent",)),
]


@pytest.mark.parametrize(("value", "check"), HOLDING)
def test_checks_that_hold(passes: Any, value: object, check: tuple[Any, ...]) -> None:
    assert passes(value, check)


@pytest.mark.parametrize(("value", "check"), NOT_HOLDING)
def test_checks_that_fail_are_named(tree_of: Any, value: object, check: tuple[Any, ...]) -> None:
    tree = tree_of(check)
    assert not tree.check((value,), plain)
    assert tree.first_failure((value,), plain) == ((("local", 0),), check)


ABSENT = [
    ({}, [("dict_item", "a")]),
    (Plain(), [("attr", "missing")]),
    (int, [("mro_attr", "missing")]),
    ({}, [("item", "a")]),
]


@pytest.mark.parametrize(("value", "path"), ABSENT)
def test_absent_holds_when_the_value_is_not_there(passes: Any, value: object, path: list[tuple[str, Any]]) -> None:
    assert passes(value, ("absent",), path=path)


def test_absent_needs_a_base_that_could_have_it(passes: Any) -> None:
    assert not passes([], ("absent",), path=[("dict_item", "a")])
    assert not passes(Plain(), ("absent",), path=[("attr", "failing")])


def test_empty_cell(native: ModuleType) -> None:
    function, _ = with_closure()
    nodes = [("closure_cell", i, [], [("cell_contents", None, [("absent",)], [], -1)], -1) for i in range(2)]
    names = function.__code__.co_freevars
    for i, name in enumerate(names):
        assert native.GuardTree([nodes[i]]).check((), function) == (name == "missing")


def test_order_of_nodes_and_short_circuit(native: ModuleType) -> None:
    seen: list[str] = []

    class Watch:
        def __getattr__(self, name: str) -> object:
            seen.append(name)
            return name

    def attr(name: str, expected: str) -> tuple[Any, ...]:
        return ("attr", name, [("eq", expected)], [], -1)

    tree = native.GuardTree([("local", 0, [], [attr("a", "a"), attr("b", "other"), attr("c", "c")], -1)])
    assert not tree.check((Watch(),), plain)
    assert seen == ["a", "b"]


def test_deep_trees(native: ModuleType) -> None:
    value: Any = "leaf"
    node: Any = ("index", 0, [("eq", "leaf")], [], 0)
    for _ in range(1000):
        value = [value]
        node = ("index", 0, [], [node], -1)
    tree = native.GuardTree([("local", 0, [], [node], -1)], 1)
    assert tree.fetch(([value],), plain) == ("leaf",)


# ---------------------------------------------------------------- relations


def slots(n: int) -> list[tuple[Any, ...]]:
    return [("local", i, [], [], i) for i in range(n)]


def test_same_and_distinct(native: ModuleType) -> None:
    a, b = object(), object()
    same = native.GuardTree(slots(2), 2, [("same", (0, 1))])
    distinct = native.GuardTree(slots(2), 2, [("distinct", (0, 1))])
    assert same.check((a, a), plain)
    assert not same.check((a, b), plain)
    assert distinct.check((a, b), plain)
    assert not distinct.check((a, a), plain)
    assert same.first_failure((a, b), plain) == ((), ("relation", ("same", (0, 1))))
    assert same.fetch((a, b), plain) is None


def test_why_not_names_values_and_paths(native: ModuleType) -> None:
    a, b = object(), object()
    same = native.GuardTree(slots(2), 2, [("same", (0, 1))])
    assert same.why_not((a, a), plain) is None
    assert same.why_not((a, b), plain) == (
        ((("local", 0),), (("local", 1),)), ("relation", ("same", (0, 1))), (a, b)
    )  # fmt: skip
    length = native.GuardTree([("local", 0, [("type", list), ("len", 2)], [], -1)])
    assert length.why_not(([1],), plain) == ((("local", 0),), ("len", 2), [1])
    missing = native.GuardTree([("local", 0, [], [("index", 3, [], [], -1)], -1)])
    assert missing.why_not(([1],), plain) == ((("local", 0), ("index", 3)), ("fetch",), None)


def test_identities_alone(native: ModuleType) -> None:
    wanted = Plain()
    item = ("index", 1, [("id", wanted)], [], -1)
    tree = native.GuardTree([("local", 0, [("len", 2)], [item], -1), ("local", 1, [("eq", 3)], [], -1)])
    assert tree.identities_hold(([0, wanted], 3), plain)
    assert tree.identities_hold(([0, wanted, 0], 4), plain)  # whatever the others say
    assert not tree.identities_hold(([0, Plain()], 3), plain)
    assert tree.identities_hold(([0], 3), plain)  # what is not there is no other object
    with pytest.raises(TypeError, match="identities_hold"):
        tree.identities_hold(([0],))


@pytest.mark.parametrize("n", [2, 12, 13, 100])
def test_distinct_of_many(native: ModuleType, n: int) -> None:
    tree = native.GuardTree(slots(n), n, [("distinct", tuple(range(n)))])
    values = tuple(object() for _ in range(n))
    assert tree.check(values, plain)
    assert not tree.check((*values[:-1], values[0]), plain)


# ---------------------------------------------------------------- construction


BAD = [
    ([("nowhere", 0, [], [], -1)], 0, "unknown accessor 'nowhere'"),
    ([("attr", "x", [], [], -1)], 0, "is for children"),
    ([("local", 0, [], [("local", 1, [], [], -1)], -1)], 0, "is for roots"),
    ([("local", -1, [], [], -1)], 0, "needs an index from 0"),
    ([("local", "x", [], [], -1)], 0, "needs an index from 0"),
    ([("local", 0, [], [("attr", 3, [], [], -1)], -1)], 0, "needs a str"),
    ([("local", 0, [("odd", 1)], [], -1)], 0, "unknown check 'odd'"),
    ([("local", 0, [("len",)], [], -1)], 0, "lacks its argument"),
    ([("local", 0, [("type", 3)], [], -1)], 0, "needs a type"),
    ([("local", 0, [("keys", ["a"])], [], -1)], 0, "needs a tuple"),
    ([("local", 0, [], [], 1)], 1, "slot 1, but the tree has 1"),
    ([("local", 0, [], [], 0), ("local", 1, [], [], 0)], 1, "slot 0 is filled twice"),
    ([("local", 0, [], [], 0)], 2, "slot 1 is filled by no node"),
    ([("local", 0, [("absent",)], [], 0)], 1, "an absent value has no"),
    ([3], 0, "a node must be"),
]


@pytest.mark.parametrize(("roots", "n_slots", "message"), BAD)
def test_bad_specs_are_refused(native: ModuleType, roots: list[Any], n_slots: int, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        native.GuardTree(roots, n_slots)


@pytest.mark.parametrize(
    "relation", [("same",), ("same", (0, 5)), ("odd", (0,)), ("storages", (0,)), ("storages", (0,), (0, 1)), 3]
)
def test_bad_relations_are_refused(native: ModuleType, relation: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        native.GuardTree(slots(1), 1, [relation])


def test_arguments_of_check_are_validated(native: ModuleType) -> None:
    tree = native.GuardTree([])
    with pytest.raises(TypeError, match="expects"):
        tree.check(())
    with pytest.raises(TypeError, match="expects"):
        tree.check([], plain)
    with pytest.raises(TypeError, match="expects"):
        tree.check((), len)


# ---------------------------------------------------------------- lifetimes


@pytest.mark.usefixtures("collected")
def test_identity_guards_do_not_keep_objects(native: ModuleType) -> None:
    kept = Plain()
    tree = native.GuardTree([("local", 0, [("id", kept)], [], -1), ("object", kept, [], [], -1)])
    died = weakref.ref(kept)
    assert tree.alive()
    assert tree.check((kept,), plain)
    del kept
    assert died() is None
    assert not tree.alive()
    assert not tree.check((None,), plain)
    assert not tree.check((Plain(),), plain)


@pytest.mark.usefixtures("collected")
def test_types_and_keys_are_not_kept(native: ModuleType) -> None:
    class Local:
        pass

    key = Plain()
    tree = native.GuardTree([("local", 0, [("type", Local), ("keys", (key,))], [], -1)])
    died = weakref.ref(key)
    del key
    assert died() is None
    assert not tree.alive()
    dead_type = weakref.ref(Local)
    del Local
    gc.collect()
    assert dead_type() is None


def test_objects_without_weak_references_are_kept(native: ModuleType) -> None:
    value = Slotted()
    tree = native.GuardTree([("local", 0, [("id", value)], [], -1)])
    assert gc.get_referrers(value)
    assert tree.check((value,), plain)
    assert tree.alive()


def test_a_tree_frees_what_it_holds(native: ModuleType) -> None:
    class Kept:
        __slots__ = ("__weakref__",)

    value = Kept()
    died = weakref.ref(value)
    tree = native.GuardTree([("constant", value, [], [], 0)], 1)
    del value
    assert died() is not None
    del tree
    assert died() is None


def test_fetching_keeps_values_only_as_long_as_the_result(native: ModuleType) -> None:
    class Fresh:
        @property
        def made(self) -> object:
            return Plain()

    tree = native.GuardTree([("local", 0, [], [("attr", "made", [], [], 0)], -1)], 1)
    fetched = tree.fetch((Fresh(),), plain)
    died = weakref.ref(fetched[0])
    assert died() is not None
    del fetched
    assert died() is None


def test_a_guard_that_changes_what_is_walked(native: ModuleType) -> None:
    """User code in a fetch empties the containers the walk stands on."""

    class Root:
        def __init__(self) -> None:
            self.items = [Plain(), Plain()]

        @property
        def gone(self) -> object:
            self.items.clear()
            self.__dict__.clear()
            gc.collect()
            return 1

    tree = native.GuardTree(
        [
            (
                "local",
                0,
                [],
                [
                    ("instance_dict", None, [], [("dict_item", "items", [], [("index", 0, [], [], 0)], 1)], -1),
                    ("attr", "gone", [("eq", 1)], [], -1),
                    ("attr", "items", [], [], -1),
                ],
                -1,
            )
        ],
        2,
    )
    assert tree.fetch((Root(),), plain) is None
