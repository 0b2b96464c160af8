"""The frame hook: frames run replacement code in place or by a call, and everything else is left alone."""

import asyncio
import dis
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest


@contextmanager
def hooked(native: ModuleType, convert: Any, key: object = "key") -> Iterator[None]:
    native.set_hook(convert, key)
    try:
        yield
    finally:
        native.unset_hook()


@pytest.fixture(params=[False, True], ids=["in_place", "by_call"])
def by_call(native: ModuleType, request: pytest.FixtureRequest) -> Iterator[bool]:
    if not native.hook_available():
        pytest.skip(f"no frame hook: {native.hook_unavailable_reason()}")
    native._force_by_call(request.param)
    yield request.param
    native._force_by_call(False)


@pytest.fixture
def key() -> object:
    return object()


def entry_code(code: CodeType) -> CodeType:
    """The same function with the layout of an entry: what were keyword-only, * and ** slots become positional."""
    n = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    cells = set(code.co_cellvars)
    assert not cells & set(code.co_varnames[:n])
    names = (*code.co_varnames[:n], "_inputs", "_extras", *code.co_varnames[n:])
    return shifted(code, n).replace(
        co_argcount=n + 2,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~(4 | 8),
        co_varnames=names,
        co_nlocals=len(names),
    )


def shifted(code: CodeType, n: int) -> CodeType:
    """Moves every local, cell and free variable from slot n on by two."""
    raw = bytearray(code.co_code)
    for instruction in dis.get_instructions(code, show_caches=False):
        op = instruction.opcode
        if op in dis.haslocal or op in dis.hasfree:
            assert instruction.arg is not None
            arg = instruction.arg
            if instruction.opname in ("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"):
                high, low = arg >> 4, arg & 15
                arg = (high + 2 * (high >= n)) << 4 | (low + 2 * (low >= n))
            elif instruction.opname == "COPY_FREE_VARS":
                pass
            elif arg >= n:
                arg += 2
            assert arg < 256
            raw[instruction.offset + 1] = arg
    return code.replace(co_code=bytes(raw))


# ---------------------------------------------------------------- a program whose every frame is replaced


def plain(a: Any, b: Any = 2, *rest: Any, c: Any = 3, **kw: Any) -> Any:
    return (a, b, rest, c, kw)


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def thrower(x: int) -> int:
    if x == 0:
        raise ValueError("deep")
    return thrower(x - 1)


def catcher(x: int) -> Any:
    try:
        thrower(x)
    except ValueError as error:
        return [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return None


def counter() -> Any:
    n = 0

    def inc(k: int = 1) -> int:
        nonlocal n
        n += k
        return n

    return inc


def generator(n: int) -> Any:
    for i in range(n):
        got = yield i
        if got:
            return got


async def coroutine(n: int) -> int:
    return n + 1


async def async_generator(n: int) -> Any:
    for i in range(n):
        yield i


class Base:
    def __init__(self, v: int) -> None:
        self.v = v

    def m(self, k: int) -> int:
        return self.v + k

    @property
    def p(self) -> int:
        return self.v * 2

    @staticmethod
    def s(x: int) -> int:
        return x + 1

    @classmethod
    def c(cls, x: int) -> "Base":
        return cls(x)


class Derived(Base):
    def m(self, k: int) -> int:
        return super().m(k) + 100


def deep(n: int) -> int:
    return 0 if n == 0 else 1 + deep(n - 1)


def program() -> list[Any]:
    results: list[Any] = [plain(1), plain(1, 5, 6, 7, c=9, z=1), plain(*(1, 2), c=4), fib(10), catcher(20)]
    inc = counter()
    inc()
    inc(5)
    results.append(inc())
    results.append(list(generator(4)))
    running = generator(3)
    next(running)
    try:
        running.send(9)
    except StopIteration as stop:
        results.append(stop.value)

    async def collect() -> Any:
        return await coroutine(1), [i async for i in async_generator(3)]

    results.append(asyncio.run(collect()))
    d = Derived(5)
    results.append((d.m(1), d.p, d.s(1), Derived.c(3).v, Base.m(d, 2)))
    results.append(([x * y for x in (1, 2) for y in (3, 4)], {x: x for x in "ab"}, sum(x for x in (1, 2))))
    results.append(sorted([3, 1, 2], key=lambda x: -x))
    results.append(deep(300))
    return results


def test_every_frame_replaced(native: ModuleType, make_entry: Any, by_call: bool, key: object) -> None:
    expected = program()
    seen: dict[str, int] = {}

    def convert(function: FunctionType, args: tuple[Any, ...], given: object) -> Any:
        assert given is key
        code = function.__code__
        n = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        assert len(args) == n
        if code.co_filename != __file__ or set(code.co_cellvars) & set(code.co_varnames[:n]):
            return native.SKIP
        seen[code.co_name] = seen.get(code.co_name, 0) + 1
        return make_entry(entry_code(code), needs_hook=True)

    for _ in range(3):
        with hooked(native, convert, key):
            got = program()
        assert got == expected
    assert {"plain", "fib", "thrower", "catcher", "inc", "m", "p", "s", "c", "deep", "program"} <= set(seen)
    assert not {"generator", "coroutine", "async_generator", "collect"} & set(seen)
    assert seen["fib"] == 1
    assert native.hook_depth() == 0


def target(x: Any, mode: Any) -> Any:
    return ("original", x, mode)


def new_target(x: Any, mode: Any, inputs: Any, extras: Any) -> Any:
    temporary = [x, mode]
    return ("new", *temporary, inputs, extras)


def test_convert_answers(native: ModuleType, make_entry: Any, by_call: bool, key: object) -> None:
    calls: list[Any] = []

    def convert(function: FunctionType, args: tuple[Any, ...], _key: object) -> Any:
        if function is not target:
            return native.SKIP
        calls.append(args)
        x, mode = args
        answers = {"skip": native.SKIP, "only": native.RUN_ONLY, "none": None}
        if mode == "boom":
            raise RuntimeError("compiler")
        if mode in answers:
            return answers[mode]
        roots = [("local", 0, [("type", type(x))], [], 0), ("local", 1, [("eq", mode)], [], 1)]
        return make_entry(new_target, roots, 2, 1)

    native.reset_code(target.__code__)
    with hooked(native, convert, key):
        assert target(1, "a") == ("new", 1, "a", (1,), ("a",))
        assert target(2, "a") == ("new", 2, "a", (2,), ("a",))
        assert target("q", mode="a") == ("new", "q", "a", ("q",), ("a",))
        assert len(calls) == 2
        assert target(1.5, "none") == ("original", 1.5, "none")
        with pytest.raises(RuntimeError, match="compiler") as caught:
            target(b"", "boom")
        assert "target" not in [frame.name for frame in traceback.extract_tb(caught.tb)]
        with pytest.raises(TypeError):
            target()  # type: ignore[call-arg]
        assert target([], "only") == ("original", [], "only")
        n = len(calls)
        assert target({}, "new") == ("original", {}, "new")
        assert target(3, "a") == ("new", 3, "a", (3,), ("a",))
        assert len(calls) == n
        native.reset_code(target.__code__)
        assert target(1, "skip")[0] == "original"
        assert target(1, "a")[0] == "original"
    assert target(1, "a")[0] == "original"
    native.reset_code(target.__code__)


def test_closures_use_the_callers_cells(native: ModuleType, make_entry: Any, by_call: bool, key: object) -> None:
    def make(v: object) -> Any:
        def f(a: object) -> object:
            return ("original", a, v)

        return f

    def make_new(v: object) -> Any:
        def f(a: object, inputs: object, extras: object) -> object:
            return ("new", a, v, (lambda: a)())

        return f

    one, two = make(1), make("two")
    roots = [("closure_cell", 0, [], [("cell_contents", None, [("type", int)], [], -1)], -1)]
    native.add_entry(one.__code__, key, make_entry(make_new(0), roots))
    with hooked(native, None, key):
        assert (one(5), two(5)) == (("new", 5, 1, 5), ("original", 5, "two"))
    native.reset_code(one.__code__)


def test_only_the_thread_that_asked(native: ModuleType, make_entry: Any, by_call: bool, key: object) -> None:
    native.add_entry(target.__code__, key, make_entry(new_target))
    other: list[Any] = []
    with hooked(native, None, key):
        thread = threading.Thread(target=lambda: other.extend(target(0, 0)[0] for _ in range(1000)))
        thread.start()
        mine = [target(0, 0)[0] for _ in range(1000)]
        thread.join()
    assert set(other) == {"original"}
    assert set(mine) == {"new"}
    native.reset_code(target.__code__)


def test_threads_at_once(native: ModuleType, make_entry: Any, by_call: bool, key: object) -> None:
    native.add_entry(target.__code__, key, make_entry(new_target))
    wrong: list[Any] = []

    def run(on: bool) -> None:
        for i in range(200):
            if on:
                with hooked(native, None, key):
                    got = target(i, deep(20))
            else:
                got = target(i, deep(20))
            if got[:3] != ("new" if on else "original", i, 20):
                wrong.append(got)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=run, args=(i % 2 == 0,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert not wrong
    native.reset_code(target.__code__)


def test_compiled_with_a_hook(native: ModuleType, make_entry: Any, by_call: bool) -> None:
    """An entry that needs the hook: frames its code runs are met, and only while it runs."""
    met: list[str] = []

    def opaque(x: Any) -> Any:
        return ("original", x)

    def new_opaque(x: Any, inputs: Any, extras: Any) -> Any:
        return ("met", x)

    def user(x: Any) -> Any:
        return opaque(x), native

    def new_user(x: Any, inputs: Any, extras: Any) -> Any:
        return ("entry", opaque(x), native.hook_depth())

    def convert(function: FunctionType, args: tuple[Any, ...], _key: object) -> Any:
        met.append(function.__name__)
        if function is user:
            return make_entry(new_user, needs_hook=True)
        return make_entry(new_opaque) if function is opaque else native.SKIP

    compiled = native.Compiled(user, "key", convert)
    assert compiled(1) == ("entry", ("met", 1), 1)
    assert opaque(1) == ("original", 1)
    assert met == ["user", "opaque"]
    assert compiled(2) == ("entry", ("met", 2), 1)
    assert met == ["user", "opaque"]


def test_frames_below_an_entry_that_needs_no_hook_are_left_alone(
    native: ModuleType, make_entry: Any, by_call: bool, key: object
) -> None:
    """All it runs is the graph; what an entry below it that does need the hook calls is met again."""
    met: list[str] = []

    def leaf(x: Any) -> Any:
        return x

    def outer(x: Any) -> Any:
        return leaf(x)

    def new_outer(x: Any, inputs: Any, extras: Any) -> Any:
        return ("outer", leaf(x))

    def convert(function: FunctionType, args: tuple[Any, ...], _key: object) -> Any:
        if function in (outer, leaf):  # and not the context manager around
            met.append(function.__name__)
        return make_entry(new_outer, needs_hook=needs_hook) if function is outer else native.SKIP

    for needs_hook in (False, True, False):
        native.reset_code(outer.__code__)
        native.reset_code(leaf.__code__)
        met.clear()
        with hooked(native, convert, key):
            assert outer(1) == ("outer", 1)
            assert met == (["outer", "leaf"] if needs_hook else ["outer"])
            assert leaf(1) == 1
        assert met == ["outer", "leaf"]
        native.reset_all()
        met.clear()
        with hooked(native, convert, key):
            assert native.Compiled(outer, key, convert)(1) == ("outer", 1)
            assert leaf(1) == 1
        assert met == ["outer", "leaf"]


def test_skipped_function_with_a_hook(native: ModuleType, make_entry: Any, by_call: bool) -> None:
    """SKIP | HOOK: the function itself runs as it is, what it calls is met; the function is not asked for twice."""
    met: list[str] = []

    def inner(x: Any) -> Any:
        return ("original", x)

    def new_inner(x: Any, inputs: Any, extras: Any) -> Any:
        return ("met", x)

    def outer(x: Any) -> Any:
        return inner(x)

    def convert(function: FunctionType, args: tuple[Any, ...], _key: object) -> Any:
        met.append(function.__name__)
        return make_entry(new_inner) if function is inner else answer

    for answer in (native.SKIP | native.HOOK, native.RUN_ONLY | native.HOOK, native.HOOK):
        native.reset_code(outer.__code__)
        native.reset_code(inner.__code__)
        met.clear()
        compiled = native.Compiled(outer, "key", convert)
        assert compiled(1) == ("met", 1)
        assert met == ["outer", "inner"]
        assert compiled(1) == ("met", 1)
        assert met.count("inner") == 1
    native.reset_code(outer.__code__)


def test_call_unhooked(native: ModuleType, make_entry: Any, by_call: bool, key: object) -> None:
    native.add_entry(target.__code__, key, make_entry(new_target))
    with hooked(native, None, key):
        assert native.call_unhooked(target, 1, mode=2) == ("original", 1, 2)
        assert target(1, 2)[0] == "new"
        with pytest.raises(TypeError):
            native.call_unhooked(target)
        assert target(1, 2)[0] == "new"
    native.reset_code(target.__code__)


def test_stance_and_capture_silence_the_hook(native: ModuleType, make_entry: Any, by_call: bool, key: object) -> None:
    native.add_entry(target.__code__, key, make_entry(new_target))
    with hooked(native, None, key):
        native.set_stance(1)
        eager = target(1, 2)[0]
        native.set_stance(2)
        run_only = target(1, 2)[0]
        native.set_stance(0)
        native.enter_capture()
        capturing = target(1, 2)[0]
        native.leave_capture()
    assert (eager, run_only, capturing) == ("original", "new", "original")
    native.reset_code(target.__code__)


def test_deep_recursion(native: ModuleType, make_entry: Any, by_call: bool, key: object) -> None:
    """Chunks of the data stack end somewhere: in place must give way there, and the limit must hold."""
    native.add_entry(deep.__code__, key, make_entry(entry_code(deep.__code__), needs_hook=True))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1500)  # whatever other tests and libraries left: the C stack has an end, too
    try:
        with hooked(native, None, key):
            assert deep(600) == 600
            with pytest.raises(RecursionError):
                deep(100000)
            assert deep(600) == 600
    finally:
        sys.setrecursionlimit(limit)
    native.reset_code(deep.__code__)


def test_large_frames(native: ModuleType, make_entry: Any, by_call: bool, key: object) -> None:
    names: dict[str, Any] = {}
    body = "\n".join(f"    v{i} = x + {i}" for i in range(3000))
    exec(f"def big(x, inputs, extras):\n{body}\n    return v2999", names)
    exec("def small(x):\n    return x", names)
    native.add_entry(names["small"].__code__, key, make_entry(names["big"]))
    with hooked(native, None, key):
        assert [names["small"](i) for i in range(20)] == [i + 2999 for i in range(20)]


def traced(a: int, b: int) -> int:
    c = a + b
    return c


def new_traced(a: int, b: int, inputs: object, extras: object) -> int:
    c = a + b
    d = c
    return d


def test_tracers_see_one_call_and_one_return(native: ModuleType, make_entry: Any, by_call: bool, key: object) -> None:
    native.add_entry(traced.__code__, key, make_entry(new_traced))
    events: list[tuple[str, str]] = []

    def tracer(frame: types.FrameType, event: str, _arg: object) -> Any:
        if "traced" in frame.f_code.co_name:
            events.append((frame.f_code.co_name, event))
        return tracer

    before = sys.gettrace(), sys.getprofile()
    with hooked(native, None, key):
        sys.settrace(tracer)
        value = traced(1, 2)
        sys.settrace(before[0])
    assert value == 3
    # A trace function is to see each line of the original: nothing cached runs.
    assert events == [("traced", "call"), *[("traced", "line")] * 2, ("traced", "return")]
    events.clear()
    with hooked(native, None, key):
        sys.setprofile(lambda f, e, a: tracer(f, e, a) and None)
        value = traced(1, 2)
        sys.setprofile(before[1])
    assert value == 3
    assert events == [("new_traced", "call"), ("new_traced", "return")]
    native.reset_code(traced.__code__)


@pytest.mark.usefixtures("collected")
def test_references(native: ModuleType, make_entry: Any, by_call: bool, key: object) -> None:
    class Thing: ...

    def f(a: Any, *rest: Any, k: Any = None, **kw: Any) -> Any:
        return None

    def new_f(a: Any, k: Any, rest: Any, kw: Any, inputs: Any, extras: Any) -> Any:
        return inputs, extras

    def raising(a: Any, k: Any, rest: Any, kw: Any, inputs: Any, extras: Any) -> Any:
        raise ValueError

    thing = Thing()
    died = weakref.ref(thing)
    roots = [("local", 0, [], [], 0), ("local", 1, [], [], 1)]
    for replacement in (new_f, raising):
        native.reset_code(f.__code__)
        native.add_entry(f.__code__, key, make_entry(replacement, roots, 2, 1))
        with hooked(native, None, key):
            for attempt in range(2):
                before = sys.getrefcount(thing)
                for _ in range(200):
                    try:
                        assert f(thing, thing, k=thing, z=thing) == ((thing,), (thing,))
                    except ValueError:
                        assert replacement is raising
                assert sys.getrefcount(thing) == before or attempt == 0
    del thing
    assert died() is None


def test_a_hook_left_on_inside_an_entry_goes_with_it(native: ModuleType, make_entry: Any) -> None:
    if not native.hook_available():
        pytest.skip(f"no frame hook: {native.hook_unavailable_reason()}")

    def user(x: Any) -> Any:
        return x, native

    def new_user(x: Any, inputs: Any, extras: Any) -> Any:
        native.set_hook(None, "other")
        native.set_hook(None, "other")
        return native.hook_depth()

    native.add_entry(user.__code__, "key", make_entry(new_user, needs_hook=True))
    assert native.Compiled(user, "key", None)(1) == 3
    assert native.hook_depth() == 0
    with pytest.raises(RuntimeError, match="without set_hook"):
        native.unset_hook()
