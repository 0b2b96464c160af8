"""Shortcuts: a subtree whose dicts did not change is skipped, and nothing that changes goes unseen."""

import collections
import contextlib
import random
import sys
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 13), reason="CPython 3.13 keeps no dict versions")


class Mod:
    """Keeps its state as nn.Module does: dicts in the instance's dict."""

    def __init__(self, **children: "Mod") -> None:
        self.training = True
        self.params: dict[str, Any] = {"w": Leaf(), "b": Leaf()}
        self.children = dict(children)
        self.shape = (1, 2)
        self.items = [1, 2]
        self.ordered = collections.OrderedDict(x=1, y=2)


class Other(Mod):
    pass


class Leaf:
    pass


class OtherLeaf(Leaf):
    pass


def plain(*args: object) -> None: ...


class Builder:
    """Node specs for a Mod, and slots for its leaves."""

    def __init__(self) -> None:
        self.n = 0

    def slot(self) -> int:
        self.n += 1
        return self.n - 1

    def state(self, mod: Mod) -> Any:
        leaves = [("dict_item", k, [("type", type(v))], [], self.slot()) for k, v in mod.params.items()]
        kids = [("dict_item", k, [("type", type(c))], [self.state(c)], -1) for k, c in mod.children.items()]
        fields = [
            ("dict_item", "training", [("eq", mod.training)], [], -1),
            ("dict_item", "params", [("len", len(mod.params)), ("dict_lacks", "missing")], leaves, -1),
            ("dict_item", "children", [("keys", tuple(mod.children))], kids, -1),
            ("dict_item", "shape", [("len", 2)], [("index", 1, [("eq", mod.shape[1])], [], self.slot())], -1),
            ("dict_item", "items", [("len", 2)], [("index", 0, [("eq", mod.items[0])], [], -1)], -1),
            ("dict_item", "ordered", [("keys", tuple(mod.ordered))], [], -1),
            ("dict_item", "absent", [("absent",)], [], -1),
        ]
        return ("instance_dict", None, [], fields, -1)

    def tree(self, native: ModuleType, mod: Mod) -> Any:
        root = ("local", 0, [("type", type(mod))], [self.state(mod)], -1)
        return native.GuardTree([root], self.n)


def nested(depth: int = 3, width: int = 2) -> Mod:
    return Mod(**({f"c{i}": nested(depth - 1, width) for i in range(width)} if depth else {}))


def agree(tree: Any, mod: object) -> bool:
    """What the tree says with shortcuts, after checking that a full walk says the same."""
    full = tree.first_failure((mod,), plain) is None
    assert tree.check((mod,), plain) == full
    fetched = tree.fetch((mod,), plain)
    assert (fetched is not None) == full
    return full


def test_shortcuts_are_taken_and_fetch_the_same(native: ModuleType) -> None:
    mod = nested()
    tree = Builder().tree(native, mod)
    assert tree.n_shortcuts == 15
    first = tree.fetch((mod,), plain)
    assert tree.shortcut_hits == 0
    again = tree.fetch((mod,), plain)
    assert tree.shortcut_hits == 15
    assert len(first) == len(again)
    assert all(a is b for a, b in zip(first, again, strict=True))


def mutations(mod: Mod) -> dict[str, Any]:
    def swap_dict() -> None:
        mod.__dict__ = dict(mod.__dict__)

    def other_dict() -> None:
        mod.__dict__ = dict(mod.__dict__) | {"training": not mod.training}

    def set_class(cls: type) -> None:
        for leaf in vars(mod).get("params", {}).values():
            leaf.__class__ = cls

    return {
        "training": lambda: setattr(mod, "training", not mod.training),
        "new attribute": lambda: setattr(mod, "note", object()),
        "unguarded": lambda: mod.__dict__.pop("note", None),
        "absent": lambda: setattr(mod, "absent", 1),
        "not absent": lambda: mod.__dict__.pop("absent", None),
        "new leaf": lambda: mod.params.__setitem__("w", Leaf()),
        "other leaf": lambda: mod.params.update(w=OtherLeaf()),
        "class of a leaf": lambda: set_class(OtherLeaf),
        "class of a leaf back": lambda: set_class(Leaf),
        "one more": lambda: mod.params.update(missing=1),
        "one less": lambda: mod.params.pop("missing", None),
        "class": lambda: setattr(mod, "__class__", Other),
        "class back": lambda: setattr(mod, "__class__", Mod),
        "other shape": lambda: setattr(mod, "shape", (1, 3)),
        "shape": lambda: setattr(mod, "shape", (1, 2)),
        "list item": lambda: mod.items.__setitem__(0, 5),
        "list item back": lambda: mod.items.__setitem__(0, 1),
        "list": lambda: mod.items.append(1),
        "list back": lambda: mod.items.__delitem__(slice(2, None)),
        "order": lambda: mod.ordered.move_to_end("x"),
        "order back": lambda: mod.ordered.move_to_end("y"),
        "same dict again": swap_dict,
        "other dict": other_dict,
        "children": lambda: mod.children.update(extra=Mod()),
        "children back": lambda: mod.children.pop("extra", None),
        "params away": lambda: setattr(mod, "params", {}),
        "del": lambda: mod.__dict__.pop("items", None),
        "restored": lambda: mod.__dict__.update(items=[1, 2], params={"w": Leaf(), "b": Leaf()}, training=True),
    }


@pytest.mark.parametrize("name", list(mutations(Mod())))
def test_each_change_is_seen(native: ModuleType, name: str) -> None:
    root = nested(2)
    tree = Builder().tree(native, root)
    middle = root.children["c1"]
    for _ in range(3):
        assert agree(tree, root)
    mutations(middle)[name]()
    agree(tree, root)
    agree(tree, root)


@pytest.mark.parametrize("seed", range(20))
def test_random_changes(native: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    roots = [nested(2) for _ in range(rng.choice([1, 2, 6]))]
    tree = Builder().tree(native, roots[0])
    passed = 0
    for _ in range(400):
        root = rng.choice(roots)
        modules = [root, *root.children.values()] + [
            m for c in list(root.children.values()) for m in c.children.values()
        ]
        if rng.random() < 0.4:
            with contextlib.suppress(
                AttributeError, KeyError, TypeError
            ):  # an earlier change took what this one changes
                rng.choice(list(mutations(rng.choice(modules)).values()))()
        if rng.random() < 0.2:
            for module in modules:
                mutations(module)["restored"]()
                for name in (
                    "class back",
                    "not absent",
                    "one less",
                    "children back",
                    "shape",
                    "order back",
                    "restored",
                ):
                    mutations(module)[name]()
                module.params.update(w=Leaf(), b=Leaf())
        passed += agree(tree, root)
    assert passed > 20
    assert tree.shortcut_hits > 50


def test_values_fetched_are_the_new_ones(native: ModuleType) -> None:
    mod = nested(1)
    builder = Builder()
    tree = builder.tree(native, mod)
    for _ in range(10):
        fetched = tree.fetch((mod,), plain)
        assert fetched[0] is mod.params["w"]
        mod.params["w"] = Leaf()
        mod.children["c0"].params["b"] = Leaf()


def test_several_instances(native: ModuleType) -> None:
    mods = [nested(2) for _ in range(3)]
    tree = Builder().tree(native, mods[0])
    for _ in range(5):
        for mod in mods:
            assert tree.fetch((mod,), plain)[0] is mod.params["w"]
    assert tree.shortcut_hits == 3 * 4 * 7


def test_a_counter_in_the_root_costs_its_own_region_only(native: ModuleType) -> None:
    mod = nested(2)
    tree = Builder().tree(native, mod)
    agree(tree, mod)
    before = tree.shortcut_hits
    for i in range(100):
        mod.step = i  # type: ignore[attr-defined]
        assert tree.check((mod,), plain)
    assert tree.shortcut_hits - before == 100 * 6


def test_freed_objects_are_not_touched(native: ModuleType) -> None:
    """Bases at the address of dead ones, and children replaced between calls."""
    tree = Builder().tree(native, nested(2))
    for i in range(300):
        mod = nested(2)
        assert tree.check((mod,), plain)
        assert tree.check((mod,), plain)
        if i % 3:
            mod.children["c0"] = nested(1)
            assert tree.check((mod,), plain)
        mod.children["c0"].training = False
        assert not tree.check((mod,), plain)
        del mod


def test_python_in_a_guard_changes_what_follows(native: ModuleType) -> None:
    """A property under the region empties its dicts while the shortcut is being taken."""

    class Trap(Mod):
        armed = False

        @property
        def trap(self) -> int:
            if self.armed:
                self.__dict__["params"] = {"w": Leaf()}
                self.__dict__["children"] = {}
            return 1

    mod = Mod(first=Trap(), second=Mod(third=Mod()))
    trap = mod.children["first"]
    trap_owner = Trap(inner=Mod())
    builder = Builder()
    inner = builder.state(trap_owner.children["inner"])
    state = (
        "instance_dict",
        None,
        [],
        [
            ("dict_item", "me", [], [("attr", "trap", [("eq", 1)], [], -1)], -1),
            ("dict_item", "children", [("keys", ("inner",))], [("dict_item", "inner", [], [inner], -1)], -1),
        ],
        -1,
    )
    tree = native.GuardTree([("local", 0, [], [state], -1)], builder.n)
    trap_owner.me = trap_owner  # type: ignore[attr-defined]
    for _ in range(3):
        assert agree(tree, trap_owner)
    Trap.armed = True
    assert not tree.check((trap_owner,), plain)
    assert not agree(tree, trap_owner)
    assert trap is not None


def test_small_or_foreign_dicts_have_none(native: ModuleType) -> None:
    small = [("local", 0, [], [("instance_dict", None, [], [("dict_item", "a", [], [], -1)], -1)], -1)]
    assert native.GuardTree(small).n_shortcuts == 0
    three = ("instance_dict", None, [], [("dict_item", n, [], [], -1) for n in ("training", "shape")], -1)
    tree = native.GuardTree([("local", 0, [], [three], -1)])
    assert tree.n_shortcuts == 1
    for _ in range(3):
        assert tree.check((Mod(),), plain)
        assert not tree.check((Mod,), plain)  # a class has a dict of another kind
        assert not tree.check((3,), plain)
