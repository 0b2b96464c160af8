"""Entries of a code object: keys, order, marks, resets, what a cache keeps alive."""

import gc
import threading
import weakref
from types import FunctionType, ModuleType
from typing import Any

import pytest


def make_function(scope: dict[str, Any] | None = None) -> FunctionType:
    names: dict[str, Any] = scope if scope is not None else {}
    exec("def f(x):\n    return ('original', x)", names)
    return names["f"]


def replacement(x: object, inputs: tuple[Any, ...], extras: tuple[Any, ...] | None) -> object:
    return ("replaced", x, inputs, extras)


def wants(value: object) -> list[Any]:
    return [("local", 0, [("eq", value)], [], -1)]


def test_entries_are_per_key_and_newest_first(native: ModuleType, make_entry: Any) -> None:
    code, one, two = make_function().__code__, object(), object()
    first, second, other = (make_entry(replacement) for _ in range(3))
    native.add_entry(code, one, first)
    native.add_entry(code, one, second)
    native.add_entry(code, two, other)
    assert native.entries(code, one) == [second, first]
    assert native.entries(code, two) == [other]
    assert native.entries(code, object()) == []
    assert native.entries(make_function().__code__, one) == []


def test_keys_are_compared_by_identity(native: ModuleType, make_entry: Any) -> None:
    class Equal:
        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

        __hash__ = object.__hash__

    code = make_function().__code__
    native.add_entry(code, Equal(), make_entry(replacement))
    assert native.entries(code, Equal()) == []


def test_a_hit_moves_to_the_front(native: ModuleType, make_entry: Any) -> None:
    function, key = make_function(), object()
    compiled = native.Compiled(function, key, None)
    entries = [make_entry(replacement, wants(i)) for i in range(4)]
    for entry in reversed(entries):
        native.add_entry(function.__code__, key, entry)
    assert compiled(2)[0] == "replaced"
    assert native.entries(function.__code__, key) == [entries[2], entries[0], entries[1], entries[3]]
    assert [e.hits for e in entries] == [0, 0, 1, 0]


def test_marks(native: ModuleType) -> None:
    code, key = make_function().__code__, object()
    assert native.flags(code, key) == 0
    native.mark(code, key, native.RUN_ONLY)
    assert native.flags(code, key) == native.RUN_ONLY
    assert native.flags(code, object()) == 0
    native.mark(code, None, native.SKIP)
    assert native.flags(code, key) == native.RUN_ONLY | native.SKIP
    assert native.flags(code, object()) == native.SKIP
    native.reset_code(code)
    assert native.flags(code, key) == native.SKIP
    native.mark(code, None, 0)
    assert native.flags(code, key) == 0


def test_reset_code_and_reset_all(native: ModuleType, make_entry: Any) -> None:
    native.reset_all()
    key, functions = object(), [make_function() for _ in range(3)]
    for function in functions:
        native.add_entry(function.__code__, key, make_entry(replacement))
        native.mark(function.__code__, key, native.RUN_ONLY)
    native.reset_code(functions[0].__code__)
    assert native.entries(functions[0].__code__, key) == []
    assert native.flags(functions[0].__code__, key) == 0
    assert len(native.entries(functions[1].__code__, key)) == 1
    assert native.reset_all() == 2
    assert all(native.entries(f.__code__, key) == [] and not native.flags(f.__code__, key) for f in functions)


def test_entries_of_another_layout_are_refused(native: ModuleType, make_entry: Any) -> None:
    def two(x: object, y: object) -> None: ...

    with pytest.raises(ValueError, match="takes 3 arguments, but"):
        native.add_entry(two.__code__, "key", make_entry(replacement))
    free = 1

    def uses_free(x: object, inputs: object, extras: object) -> object:
        return free

    with pytest.raises(ValueError, match="1 free variables, but f has 0"):
        native.add_entry(make_function().__code__, "key", make_entry(uses_free))


def test_entry_code_is_validated(make_entry: Any) -> None:
    def keyword_only(x: object, inputs: object, *, extras: object) -> None: ...
    def generator(inputs: object, extras: object) -> Any:
        yield

    def too_few(inputs: object) -> None: ...

    for bad in (keyword_only, generator, too_few):
        with pytest.raises(ValueError, match="plain function"):
            make_entry(bad)
    with pytest.raises(ValueError, match="n_inputs is 3"):
        make_entry(replacement, n_inputs=3)


@pytest.mark.usefixtures("collected")
def test_dead_entries_go_when_met(native: ModuleType, make_entry: Any) -> None:
    class Guarded: ...

    function, key, guarded = make_function(), object(), Guarded()
    entry = make_entry(replacement, [("local", 0, [("id", guarded)], [], -1)])
    native.add_entry(function.__code__, key, entry)
    native.add_entry(function.__code__, key, make_entry(replacement, wants(1)))
    entry_died = weakref.ref(entry)
    compiled = native.Compiled(function, key, None)
    assert compiled(guarded)[0] == "replaced"
    del entry, guarded
    assert len(native.entries(function.__code__, key)) == 1
    assert compiled(7)[0] == "original"
    assert entry_died() is None


@pytest.mark.usefixtures("collected")
def test_dead_entries_go_when_another_is_added(native: ModuleType, make_entry: Any) -> None:
    class Guarded: ...

    function, key, died = make_function(), object(), []
    for _ in range(5):
        guarded = Guarded()
        entry = make_entry(replacement, [("local", 0, [("id", guarded)], [], -1)])
        native.add_entry(function.__code__, key, entry)
        died.append(weakref.ref(entry))
        del guarded, entry
    assert all(ref() is None for ref in died)


@pytest.mark.usefixtures("collected")
def test_a_cache_goes_with_its_code(native: ModuleType, make_entry: Any) -> None:
    class Key: ...

    function, key = make_function(), Key()
    entry = make_entry(replacement)
    native.add_entry(function.__code__, key, entry)
    died = weakref.ref(entry), weakref.ref(key)
    compiled = native.Compiled(function, key, None)
    assert compiled(1)[0] == "replaced"
    del entry, key, function, compiled
    gc.collect()
    assert [ref() for ref in died] == [None, None]


@pytest.mark.usefixtures("collected")
def test_reset_frees_entries_and_functions_made_from_them(native: ModuleType, make_entry: Any) -> None:
    function, key = make_function(), object()
    code = replacement.__code__.replace(co_name="fresh")
    entry = make_entry(code)
    native.add_entry(function.__code__, key, entry)
    compiled = native.Compiled(function, key, None)
    assert compiled(1)[0] == "replaced"
    died = weakref.ref(entry)
    code_died = weakref.ref(code)
    del entry, code
    native.reset_code(function.__code__)
    assert died() is None
    assert code_died() is None
    assert compiled(1)[0] == "original"


def test_reset_while_a_guard_runs(native: ModuleType, make_entry: Any) -> None:
    """A guard's own Python code drops all entries: the one at hand still runs, then none is left."""
    function, key = make_function(), object()

    class Resetting:
        @property
        def x(self) -> int:
            native.reset_all()
            return 1

    for _ in range(3):
        native.add_entry(
            function.__code__,
            key,
            make_entry(replacement, [("local", 0, [], [("attr", "x", [("eq", 1)], [], -1)], -1)]),
        )
    compiled = native.Compiled(function, key, None)
    assert compiled(Resetting())[0] == "replaced"
    assert native.entries(function.__code__, key) == []
    assert compiled(Resetting())[0] == "original"


def test_reset_while_threads_run(native: ModuleType, make_entry: Any) -> None:
    function, key, stop, wrong = make_function(), object(), threading.Event(), []
    native.mark(replacement.__code__, None, native.SKIP)

    def convert(_function: object, args: tuple[Any, ...], _key: object) -> Any:
        return make_entry(replacement, wants(args[0]))

    compiled = native.Compiled(function, key, convert)

    def run() -> None:
        while not stop.is_set():
            for i in range(5):
                if compiled(i)[1] != i:
                    wrong.append(i)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        native.reset_all()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
