"""Many calls: no memory growth, by any way a call can go."""

import gc
import os
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import pytest

PAGE = os.sysconf("SC_PAGESIZE")


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * PAGE


def collect() -> None:
    """Collect what tests before left, too: what a dead code object held is garbage of the next turn only."""
    for _ in range(4):
        gc.collect()


def grows(run: Callable[[int], None], n: int) -> tuple[int, int]:
    """Growth of resident memory and of allocated blocks over n rounds, after a warm-up."""
    run(n // 10 + 200)
    collect()
    memory, blocks = resident_bytes(), sys.getallocatedblocks()
    run(n)
    collect()
    return resident_bytes() - memory, sys.getallocatedblocks() - blocks


def assert_no_growth(run: Callable[[int], None], n: int) -> None:
    memory, blocks = grows(run, n)
    assert abs(blocks) < 300
    assert memory < 2_000_000


def target(a: Any, b: Any = 2, *rest: Any, k: Any = 3, **kw: Any) -> Any:
    return a


def replacement(a: Any, b: Any, k: Any, rest: Any, kw: Any, inputs: Any, extras: Any) -> Any:
    return inputs


def raising(a: Any, b: Any, k: Any, rest: Any, kw: Any, inputs: Any, extras: Any) -> Any:
    raise ValueError


ROOTS = [
    ("local", 0, [("type", int)], [("type", None, [], [], 1)], 0),
    ("local", 1, [("eq", 2)], [], -1),
    ("globals", None, [], [("dict_item", "PAGE", [("eq", PAGE)], [], 2)], -1),
    ("local", 3, [("len", 1)], [("index", 0, [], [], 3)], -1),
]

SIZES = [pytest.param(20_000, id="short"), pytest.param(1_000_000, id="long", marks=pytest.mark.slow)]


@pytest.fixture
def function() -> FunctionType:
    return FunctionType(target.__code__.replace(), globals(), "target", target.__defaults__)


@pytest.mark.parametrize("n", SIZES)
def test_compiled_hits(native: ModuleType, make_entry: Any, n: int) -> None:
    native.add_entry(target.__code__, "key", make_entry(replacement, ROOTS, 4, 2))
    compiled = native.Compiled(target, "key", None)
    assert compiled(1, 2, 3, z=5) == (1, int)

    def run(rounds: int) -> None:
        for i in range(rounds):
            compiled(i, 2, 3, z=i)

    assert_no_growth(run, n)


@pytest.mark.parametrize("n", SIZES)
def test_compiled_misses_errors_and_exceptions(native: ModuleType, make_entry: Any, n: int) -> None:
    native.add_entry(target.__code__, "key", make_entry(raising, ROOTS, 4, 2))
    answers = [None, native.RUN_ONLY]
    compiled = native.Compiled(target, "key", lambda *_: answers[len(answers) % 2])

    def run(rounds: int) -> None:
        for i in range(rounds // 4):
            compiled("miss", i)
            for args, kwargs in (((), {}), ((1, 2, 3), {"a": 4}), ((1, 2, 3), {})):
                try:
                    compiled(*args, **kwargs)
                except (TypeError, ValueError):
                    continue

    assert_no_growth(run, n)


@pytest.mark.parametrize("n", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_captures_and_resets(native: ModuleType, make_entry: Any, n: int) -> None:
    def convert(_function: Any, args: tuple[Any, ...], _key: object) -> Any:
        code = replacement.__code__.replace(co_name="fresh")
        return make_entry(code, [("local", 0, [("eq", args[0])], [], 0)], 1, 1)

    compiled = native.Compiled(target, "key", convert)

    def run(rounds: int) -> None:
        for i in range(rounds):
            assert compiled(i % 5) == (i % 5,)
            if i % 7 == 0:
                native.reset_all()

    assert_no_growth(run, n)
    native.reset_all()


class Holder:
    pass


@pytest.mark.parametrize("n", [1_000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_functions_made_and_dropped(native: ModuleType, make_entry: Any, n: int) -> None:
    """A function made in a loop, compiled, called and dropped leaves nothing behind."""

    def convert(_function: Any, args: tuple[Any, ...], _key: object) -> Any:
        return make_entry(replacement, [("local", 0, [("id", args[0])], [("type", None, [], [], 0)], -1)], 1, 1)

    def run(rounds: int) -> None:
        for _ in range(rounds):
            names: dict[str, Any] = {}
            code = target.__code__.replace(co_name="fresh")
            held = Holder()
            names["f"] = FunctionType(code, names, "f", (2,))
            names["held"] = held
            compiled = native.Compiled(names["f"], held, convert)
            names["compiled"] = compiled
            assert compiled(held, k=1) == (Holder,)

    assert_no_growth(run, n)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("by_call", [False, True])
def test_hooked_frames(native: ModuleType, make_entry: Any, n: int, by_call: bool) -> None:
    if not native.hook_available():
        pytest.skip(f"no frame hook: {native.hook_unavailable_reason()}")

    def run(rounds: int) -> None:
        for i in range(rounds):
            try:
                target(i, 2, 3, z=i)
            except ValueError:
                continue

    native._force_by_call(by_call)
    for code in (replacement, raising):
        native.reset_code(target.__code__)
        native.add_entry(target.__code__, "key", make_entry(code, ROOTS, 4, 2))
        native.set_hook(None, "key")
        try:
            assert_no_growth(run, n)
        finally:
            native.unset_hook()
    native._force_by_call(False)


@pytest.mark.parametrize("n", SIZES)
def test_trees_that_fail_at_every_node(native: ModuleType, n: int) -> None:
    value = {"a": [1, (2, 3)], "b": "x"}

    def node(check_b: str, last: int) -> Any:
        inner = ("index", 1, [("len", 2)], [("index", 1, [("eq", last)], [], 0)], 1)
        items = [("dict_item", "a", [], [inner], 2), ("dict_item", "b", [("eq", check_b)], [], 3)]
        return native.GuardTree([("local", 0, [], items, -1)], 4)

    good, bad_leaf, bad_sibling = node("x", 3), node("x", 4), node("y", 3)

    def run(rounds: int) -> None:
        for _ in range(rounds // 4):
            assert good.fetch((value,), target) is not None
            assert bad_leaf.fetch((value,), target) is None
            assert bad_sibling.fetch((value,), target) is None
            assert bad_sibling.first_failure((value,), target)[1] == ("eq", "y")

    assert_no_growth(run, n)
