"""Compiled: binding, dispatch, capture, and looking like the function it wraps."""

import copy
import functools
import gc
import inspect
import pickle
import sys
import threading
import traceback
import types
import typing
import weakref
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import pytest

SIGNATURES = {
    "none": "",
    "positional": "a, b",
    "defaults": "a, b=2, c=3",
    "positional_only": "a, b=2, /",
    "mixed": "a, b=10, /, c=20, *, k=30",
    "keyword_only": "*, k, m=5",
    "varargs": "a, *rest",
    "varkw": "a=1, **kw",
    "everything": "a, b=2, /, c=3, *rest, k, m=4, **kw",
    "star_then_keyword": "*rest, k=1",
    "many": ", ".join(f"a{i}={i}" for i in range(40)),
    "many_keyword_only": "*, " + ", ".join(f"k{i}={i}" for i in range(40)) + ", **kw",
}
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 3), {}),
    ((1, 2, 3, 4, 5), {}),
    ((), {"a": 1}),
    ((1,), {"b": 5}),
    ((1, 2), {"c": 6}),
    ((1, 2, 3), {"c": 6}),
    ((1,), {"k": 7}),
    ((1, 2, 3, 4), {"k": 7, "m": 8}),
    ((1,), {"a": 1}),
    ((1,), {"k": 7, "z": 9}),
    ((), {"k": 7}),
    ((), {"k": 7, "m": 8}),
    ((1,), {"kw": 3, "k": 1}),
    ((1,), {"rest": 3, "k": 1}),
    (tuple(range(40)), {}),
    (tuple(range(41)), {}),
    ((), {"a39": "x", "a0": "y"}),
    ((), {f"k{i}": -i for i in range(40)} | {"extra": 1}),
]


def function_of(signature: str, body: str = "return ('original', *sorted_locals(locals()))") -> FunctionType:
    names: dict[str, Any] = {"sorted_locals": lambda d: sorted(d.items(), key=lambda item: item[0])}
    exec(f"def f({signature}):\n    {body}", names)
    return names["f"]


def twin_code(function: FunctionType) -> types.CodeType:
    """Code with the layout of an entry for the function, returning its locals by name."""
    code = function.__code__
    n = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    names = ", ".join(code.co_varnames[:n])
    space: dict[str, Any] = {}
    exec(f"def twin({names + ', ' if n else ''}inputs, extras):\n    return locals()", space)
    return space["twin"].__code__


def outcome(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return call(*args, **kwargs)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("name", SIGNATURES)
def test_binding_equals_pythons(native: ModuleType, make_entry: Any, name: str) -> None:
    function = function_of(SIGNATURES[name])
    key = object()
    native.add_entry(function.__code__, key, make_entry(twin_code(function)))
    compiled = native.Compiled(function, key, None)
    bound = 0
    for args, kwargs in CALLS:
        expected, got = outcome(function, args, kwargs), outcome(compiled, args, kwargs)
        if isinstance(expected, str):
            assert got == expected
            continue
        bound += 1
        assert got.pop("inputs") == ()
        assert got.pop("extras") is None
        assert sorted(got.items()) == list(expected[1:])
    assert bound


def test_defaults_are_read_at_each_call(native: ModuleType, make_entry: Any) -> None:
    function = function_of("a=1, *, k=2")
    native.add_entry(function.__code__, "key", make_entry(twin_code(function)))
    compiled = native.Compiled(function, "key", None)
    assert (compiled()["a"], compiled()["k"]) == (1, 2)
    compiled.__defaults__ = (5,)
    compiled.__kwdefaults__ = {"k": 6}
    assert function.__defaults__ == (5,)
    assert (compiled()["a"], compiled()["k"]) == (5, 6)
    function.__defaults__ = None
    with pytest.raises(TypeError, match="missing 1 required positional"):
        compiled()


# ---------------------------------------------------------------- entries


def replaced(x: object, inputs: tuple[Any, ...], extras: tuple[Any, ...] | None) -> object:
    return ("replaced", x, inputs, extras)


def int_first(slot: int = -1) -> list[Any]:
    return [("local", 0, [("type", int)], [], slot)]


def test_inputs_and_extras(native: ModuleType, make_entry: Any) -> None:
    function = function_of("x")
    roots = [("local", 0, [], [("index", 0, [], [], 0), ("index", 1, [], [], 2), ("index", 2, [], [], 1)], -1)]
    for n_inputs, expected in ((0, ((), (1, 3, 2))), (2, ((1, 3), (2,))), (3, ((1, 3, 2), None))):
        native.reset_code(function.__code__)
        native.add_entry(function.__code__, "key", make_entry(replaced, roots, 3, n_inputs))
        assert native.Compiled(function, "key", None)([1, 2, 3])[2:] == expected


def test_many_inputs(native: ModuleType, make_entry: Any) -> None:
    function, n = function_of("x"), 5000
    roots = [("local", 0, [], [("index", i, [], [], i) for i in range(n)], -1)]
    native.add_entry(function.__code__, "key", make_entry(replaced, roots, n, n - 1))
    result = native.Compiled(function, "key", None)(list(range(n)))
    assert result[2] == tuple(range(n - 1))
    assert result[3] == (n - 1,)


def test_the_function_sees_its_globals_cells_and_name(native: ModuleType, make_entry: Any) -> None:
    def outer(value: object) -> tuple[FunctionType, FunctionType]:
        def function(x: object) -> object:
            return value

        def new(x: object, inputs: object, extras: object) -> object:
            return ("new", value, __name__, sys._getframe().f_globals is globals())

        return function, new  # type: ignore[return-value]

    (one, new), (two, _) = outer(1), outer(2)
    assert one.__code__ is two.__code__
    native.add_entry(one.__code__, "key", make_entry(new))
    assert native.Compiled(one, "key", None)(0) == ("new", 1, __name__, True)
    assert native.Compiled(two, "key", None)(0) == ("new", 2, __name__, True)
    native.reset_code(one.__code__)


def test_exceptions_and_tracebacks(native: ModuleType, make_entry: Any) -> None:
    def new(x: object, inputs: object, extras: object) -> None:
        raise LookupError(x)

    function = function_of("x")
    native.add_entry(function.__code__, "key", make_entry(new, name="e"))
    with pytest.raises(LookupError) as caught:
        native.Compiled(function, "key", None)(3)
    names = [frame.name for frame in traceback.extract_tb(caught.tb)]
    assert names == ["test_exceptions_and_tracebacks", "new"]


# ---------------------------------------------------------------- capture


def test_convert_is_called_once_a_miss(native: ModuleType, make_entry: Any) -> None:
    calls: list[Any] = []
    function, key = function_of("x, y=2, *rest, k=3, **kw"), object()

    def convert(*given: Any) -> Any:
        calls.append(given)
        return make_entry(twin_code(function), int_first())

    compiled = native.Compiled(function, key, convert)
    assert compiled(1, k=4, z=5)["kw"] == {"z": 5}
    assert calls == [(function, (1, 2, 4, (), {"z": 5}), key)]
    assert calls[0][0] is function
    compiled(2)
    assert len(calls) == 1
    compiled(3.5)
    assert len(calls) == 2


def test_convert_answers(native: ModuleType, make_entry: Any) -> None:
    answers: list[Any] = []
    calls: list[Any] = []

    def convert(_function: object, args: tuple[Any, ...], _key: object) -> Any:
        calls.append(args)
        return answers.pop(0)

    function = function_of("x")
    compiled = native.Compiled(function, "key", convert)
    answers[:] = [None, make_entry(replaced, int_first()), native.RUN_ONLY]
    assert compiled(1)[0] == "original"
    assert compiled(1)[0] == "replaced"
    assert compiled("a")[0] == "original"
    assert native.flags(function.__code__, "key") == native.RUN_ONLY
    assert compiled(2)[0] == "replaced"
    assert compiled("b")[0] == "original"
    assert len(calls) == 3
    native.reset_code(function.__code__)
    answers[:] = [native.SKIP]
    assert compiled(1)[0] == compiled(1)[0] == "original"
    assert len(calls) == 4


def test_an_entry_whose_guards_fail_on_its_own_call(native: ModuleType, make_entry: Any) -> None:
    function = function_of("x")
    compiled = native.Compiled(function, "key", lambda *_: make_entry(replaced, int_first()))
    assert compiled("s")[0] == "original"
    assert len(native.entries(function.__code__, "key")) == 1


def test_bad_answers_and_exceptions_of_convert(native: ModuleType, make_entry: Any) -> None:
    function = function_of("x")
    with pytest.raises(TypeError, match="convert must return"):
        native.Compiled(function, "key", lambda *_: "odd")(1)

    def other(a: object, b: object, inputs: object, extras: object) -> None: ...

    with pytest.raises(ValueError, match="takes 4 arguments, but f has 1"):
        native.Compiled(function, "key", lambda *_: make_entry(other))(1)

    def fails(*_: object) -> None:
        raise RuntimeError("compiler")

    with pytest.raises(RuntimeError, match="compiler"):
        native.Compiled(function, "key", fails)(1)
    assert not native.is_capturing()


def test_binding_failure_calls_no_convert(native: ModuleType) -> None:
    def convert(*_: object) -> None:
        raise AssertionError("called")

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        native.Compiled(function_of("x"), "key", convert)()


def test_compiled_objects_stand_aside_during_capture(native: ModuleType, make_entry: Any) -> None:
    inner_function, outer_function = function_of("x"), function_of("x")
    seen: list[Any] = []
    inner = native.Compiled(inner_function, "key", lambda *_: seen.append("inner convert"))
    native.add_entry(inner_function.__code__, "key", make_entry(replaced))

    def convert(*_: object) -> None:
        seen.append((native.is_capturing(), inner(1)[0]))

    native.Compiled(outer_function, "key", convert)(1)
    assert seen == [(True, "original")]
    assert inner(1)[0] == "replaced"
    native.enter_capture()
    assert inner(1)[0] == "original"
    native.leave_capture()
    with pytest.raises(RuntimeError, match="without enter_capture"):
        native.leave_capture()


def test_compiled_objects_stand_aside_in_guards(native: ModuleType, make_entry: Any) -> None:
    inner_function = function_of("x")
    inner = native.Compiled(inner_function, "key", None)
    native.add_entry(inner_function.__code__, "key", make_entry(replaced))

    class Holder:
        @property
        def x(self) -> object:
            return inner(1)[0]

    tree = native.GuardTree([("local", 0, [], [("attr", "x", [], [], 0)], -1)], 1)
    assert tree.fetch((Holder(),), inner_function) == ("original",)


def test_stance(native: ModuleType, make_entry: Any) -> None:
    calls: list[Any] = []
    function = function_of("x")
    compiled = native.Compiled(function, "key", lambda *a: calls.append(a))
    native.add_entry(function.__code__, "key", make_entry(replaced, int_first()))
    assert native.set_stance(1) == 0
    assert compiled(1)[0] == "original"
    assert native.set_stance(2) == 1
    assert compiled(1)[0] == "replaced"
    assert compiled("s")[0] == "original"
    assert not calls
    assert native.set_stance(0) == 2
    compiled("s")
    assert len(calls) == 1
    with pytest.raises(ValueError, match="expected 0, 1 or 2"):
        native.set_stance(7)


def test_no_capture_under_a_tracer(native: ModuleType, make_entry: Any) -> None:
    calls: list[Any] = []
    function = function_of("x")
    compiled = native.Compiled(function, "key", lambda *a: calls.append(a))
    native.add_entry(function.__code__, "key", make_entry(replaced, int_first()))
    before = sys.gettrace(), sys.getprofile()
    # A trace function is to see each line: nothing cached runs. A profile function sees calls only.
    for switch, restore, cached in ((sys.settrace, before[0], "original"), (sys.setprofile, before[1], "replaced")):
        switch(lambda *_: None)
        try:
            results = compiled("s")[0], compiled(1)[0]
        finally:
            switch(restore)
        assert results == ("original", cached)
    assert not calls


def test_new_code_of_the_function(native: ModuleType, make_entry: Any) -> None:
    function, other = function_of("x"), function_of("x, y=3")
    compiled = native.Compiled(function, "key", None)
    native.add_entry(function.__code__, "key", make_entry(replaced))
    assert compiled(1)[0] == "replaced"
    compiled.__code__ = other.__code__
    assert function.__code__ is other.__code__
    assert compiled(1, 2) == ("original", ("x", 1), ("y", 2))
    native.add_entry(other.__code__, "key", make_entry(twin_code(other)))
    function.__defaults__ = (9,)
    assert compiled(1)["y"] == 9


def test_recursion(native: ModuleType, make_entry: Any) -> None:
    names: dict[str, Any] = {}
    exec("def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)", names)
    exec("def new(n, inputs, extras):\n    return inputs[0] if n < 2 else fib(n - 1) + fib(n - 2)", names)
    function = names["fib"]
    native.add_entry(function.__code__, "key", make_entry(names["new"], int_first(0), 1, 1))
    names["fib"] = native.Compiled(function, "key", None)
    assert names["fib"](15) == 610


def test_recursion_limit(native: ModuleType, make_entry: Any) -> None:
    names: dict[str, Any] = {}
    exec("def down(n):\n    return down(n + 1)", names)
    exec("def new(n, inputs, extras):\n    global deepest\n    deepest = n\n    return down(n + 1)", names)
    function = names["down"]
    native.add_entry(function.__code__, "key", make_entry(names["new"]))
    names["down"] = native.Compiled(function, "key", None)
    with pytest.raises(RecursionError):
        names["down"](0)
    assert names["deepest"] > 0.8 * sys.getrecursionlimit() - 100


# ---------------------------------------------------------------- looking like a function


def documented(a: int, b: str = "x", *, k: float = 1.0) -> "list[int]":
    """Doc."""
    return [a]


def test_attributes(native: ModuleType) -> None:
    compiled = native.Compiled(documented, "key", None)
    for name in (
        "__name__",
        "__qualname__",
        "__doc__",
        "__module__",
        "__defaults__",
        "__kwdefaults__",
        "__code__",
        "__globals__",
        "__closure__",
        "__annotations__",
        "__builtins__",
        "__dict__",
    ):
        assert getattr(compiled, name) is getattr(documented, name)
    assert compiled.__wrapped__ is documented
    assert inspect.signature(compiled) == inspect.signature(documented)
    assert inspect.unwrap(compiled) is documented
    assert inspect.getsource(compiled) == inspect.getsource(documented)
    assert typing.get_type_hints(compiled) == typing.get_type_hints(documented)
    assert callable(compiled)
    assert repr(compiled).startswith("<graphwright compiled documented at 0x")


def test_attributes_are_shared_with_the_function(native: ModuleType) -> None:
    function = function_of("x")
    function.early = 1  # type: ignore[attr-defined]
    compiled = native.Compiled(function, "key", None)
    assert compiled.early == 1
    compiled.late = 2
    assert function.late == 2  # type: ignore[attr-defined]
    assert vars(compiled) is vars(function)
    del compiled.early
    assert not hasattr(function, "early")
    function.__dict__ = {"fresh": 3}
    assert compiled.fresh == 3
    assert not hasattr(compiled, "late")
    compiled.__name__ = "renamed"
    compiled.__doc__ = "new doc"
    assert (function.__name__, function.__doc__) == ("renamed", "new doc")
    with pytest.raises(TypeError):
        compiled.__name__ = 3
    with pytest.raises(AttributeError):
        compiled.missing


def test_functools_wraps(native: ModuleType) -> None:
    compiled = native.Compiled(documented, "key", None)

    @functools.wraps(compiled)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return compiled(*args, **kwargs)

    assert wrapper.__name__ == "documented"
    assert inspect.signature(wrapper) == inspect.signature(documented)


class Host:
    def __init__(self) -> None:
        self.v = 7

    def method(self, x: object) -> object:
        return ("original", self.v, x)


def new_method(self: Host, x: object, inputs: object, extras: object) -> object:
    return ("new", self.v, x)


def test_methods_bind(native: ModuleType, make_entry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Host.method
    native.add_entry(original.__code__, "key", make_entry(new_method, [("local", 1, [("type", int)], [], -1)]))
    monkeypatch.setattr(Host, "method", native.Compiled(original, "key", None))
    host = Host()
    assert host.method(3) == ("new", 7, 3)
    assert Host.method(host, 3) == ("new", 7, 3)
    assert host.method(x=4) == ("new", 7, 4)
    assert host.method("s") == ("original", 7, "s")
    assert inspect.ismethod(host.method)
    assert host.method.__func__ is Host.method
    assert [host.method(i) for i in range(50)][-1] == ("new", 7, 49)
    assert Host.__dict__["method"].__get__(host, Host)(1) == ("new", 7, 1)
    native.reset_code(original.__code__)


def test_static_and_class_methods(native: ModuleType) -> None:
    compiled = native.Compiled(function_of("x"), "key", None)

    class C:
        s = staticmethod(compiled)
        c = classmethod(compiled)

    assert C().s(1) == ("original", ("x", 1))
    assert C.c() == ("original", ("x", C))


by_reference: Any = None


def test_pickle_copy_deepcopy(native: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"__name__": __name__}
    exec("def by_reference(x): return x", names)
    compiled = native.Compiled(names["by_reference"], "key", None)
    module = sys.modules.get(__name__)
    if module is None:  # importlib import mode
        module = types.ModuleType(__name__)
        monkeypatch.setitem(sys.modules, __name__, module)
    monkeypatch.setattr(module, "by_reference", compiled, raising=False)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(compiled, protocol)) is compiled
    assert copy.copy(compiled) is compiled
    assert copy.deepcopy({"f": compiled})["f"] is compiled


def test_construction_is_validated(native: ModuleType) -> None:
    with pytest.raises(TypeError):
        native.Compiled(len, "key", None)
    with pytest.raises(TypeError, match="convert must be callable or None"):
        native.Compiled(documented, "key", 3)
    with pytest.raises(TypeError):
        type("Child", (native.Compiled,), {})


# ---------------------------------------------------------------- lifetimes and threads


@pytest.mark.usefixtures("collected")
def test_cycles_are_collected(native: ModuleType, make_entry: Any) -> None:
    class Convert:
        owner: Any = None

        def __call__(self, *_: object) -> None: ...

    convert = Convert()
    function = function_of("x")
    compiled = native.Compiled(function, "key", convert)
    convert.owner = compiled
    compiled.me = compiled
    native.add_entry(function.__code__, "key", make_entry(replaced))
    compiled(1)
    died = [weakref.ref(compiled), weakref.ref(function), weakref.ref(convert)]
    del compiled, function, convert
    gc.collect()
    assert [ref() for ref in died] == [None] * 3


@pytest.mark.usefixtures("collected")
def test_arguments_and_results_are_not_kept(native: ModuleType, make_entry: Any) -> None:
    class Thing: ...

    function = function_of("x, *rest, **kw")

    def new(x: object, rest: object, kw: object, inputs: tuple[Any, ...], extras: tuple[Any, ...]) -> object:
        return inputs[0], extras[0]

    roots = [("local", 0, [], [], 0), ("local", 1, [], [("index", 0, [], [], 1)], -1)]
    native.add_entry(function.__code__, "key", make_entry(new, roots, 2, 1))
    compiled = native.Compiled(function, "key", None)
    things = [Thing() for _ in range(3)]
    died = [weakref.ref(thing) for thing in things]
    result = compiled(things[0], things[1], z=things[2])
    assert result == (things[0], things[1])
    counts = [sys.getrefcount(thing) for thing in things]
    for _ in range(100):
        compiled(things[0], things[1], z=things[2])
        outcome(compiled, (), {"z": things[2]})
    assert [sys.getrefcount(thing) for thing in things] == counts
    del result, things
    assert [ref() for ref in died] == [None] * 3


def test_threads(native: ModuleType, make_entry: Any) -> None:
    function, wrong = function_of("x"), []

    def convert(_function: object, args: tuple[Any, ...], _key: object) -> Any:
        return make_entry(replaced, [("local", 0, [("eq", args[0])], [], 0)], 1, 1)

    compiled = native.Compiled(function, "key", convert)

    def run(offset: int) -> None:
        for i in range(2000):
            value = (i + offset) % 7
            if compiled(value) != ("replaced", value, (value,), None):
                wrong.append(value)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert not wrong
