"""What `graphwright.compile` takes, gives and refuses."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import operator
import pickle
import re
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import torch

import graphwright
import graphwright_plugins
from graphwright import api, events
from graphwright.exc import CompileArgumentError, Unsupported
from graphwright.testing import CompileCounter
from graphwright_plugins import BackendContractError, Capabilities


def add(x: Any, y: Any = 1, *, scale: Any = 1) -> Any:
    """Adds."""
    return (x + y) * scale


compiled_add = graphwright.compile(add, backend="eager")


class Adder:
    step = 2

    def __call__(self, x: Any) -> Any:
        return x + self.step

    def method(self, x: Any) -> Any:
        return x + self.step

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x + cls.step

    @staticmethod
    def static(x: Any) -> Any:
        return x + 2


X = torch.ones(2)
KINDS: dict[str, Callable[[], Callable[..., Any]]] = {
    "function": lambda: add,
    "lambda": lambda: lambda x: x + 2,
    "bound method": lambda: Adder().method,
    "bound classmethod": lambda: Adder.of_class,
    "partial": lambda: functools.partial(add, y=2),
    "nested partial": lambda: functools.partial(functools.partial(add, scale=2), y=2),
    "partial of a method": lambda: functools.partial(Adder().method),
    "callable object": Adder,
    "C function": lambda: torch.sin,
    "C method": lambda: X.add,
    "operator": lambda: operator.neg,
    "attrgetter": lambda: operator.attrgetter("real"),
    "lru_cache": lambda: functools.lru_cache(lambda x: x + 1),
    "module": lambda: torch.nn.ReLU(),
    "module's forward": lambda: torch.nn.ReLU().forward,
    "compiled": lambda: compiled_add,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_callable_does_what_it_did(kind: str) -> None:
    fn = KINDS[kind]()
    compiled = graphwright.compile(fn, backend="eager")
    arg = torch.full((2,), 0.5)
    for _ in range(2):
        if kind == "C method":
            torch.testing.assert_close(compiled(arg), fn(arg))
        else:
            assert torch.equal(compiled(arg), fn(arg))


def test_kinds_are_kept() -> None:
    obj = Adder()
    method = graphwright.compile(obj.method, backend="eager")
    assert inspect.ismethod(method)
    assert method.__self__ is obj
    partial = functools.partial(add, y=2)
    partial.note = "mine"  # type: ignore[attr-defined]
    compiled = graphwright.compile(partial, backend="eager")
    assert isinstance(compiled, functools.partial)
    assert (compiled.keywords, compiled.note) == ({"y": 2}, "mine")
    assert isinstance(graphwright.compile(classmethod(add), backend="eager"), classmethod)
    assert isinstance(graphwright.compile(staticmethod(add), backend="eager"), staticmethod)


def test_decorator_with_and_without_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "PREFERRED_BACKEND", "eager")  # the default one may take seconds to compile

    class Thing:
        step = 3

        @graphwright.compile
        def plain(self, x: Any) -> Any:
            return x + self.step

        @graphwright.compile(backend="eager", fullgraph=False)
        def with_arguments(self, x: Any) -> Any:
            return x + self.step

        @classmethod
        @graphwright.compile(backend="eager")
        def inner(cls, x: Any) -> Any:
            return x + cls.step

        @graphwright.compile(backend="eager")
        @classmethod
        def outer(cls, x: Any) -> Any:
            return x + cls.step

        @graphwright.compile(backend="eager")
        @staticmethod
        def static(x: Any) -> Any:
            return x + 3

    thing = Thing()
    for call in (thing.plain, thing.with_arguments, thing.inner, Thing.outer, thing.static):
        assert torch.equal(call(X), X + 3)


def test_a_compiled_function_looks_like_the_function() -> None:
    assert compiled_add.__name__ == "add"
    assert compiled_add.__qualname__ == "add"
    assert compiled_add.__doc__ == "Adds."
    assert compiled_add.__module__ == __name__
    assert compiled_add.__code__ is add.__code__
    assert compiled_add.__defaults__ == (1,)
    assert compiled_add.__kwdefaults__ == {"scale": 1}
    assert compiled_add.__wrapped__ is add
    assert inspect.signature(compiled_add) == inspect.signature(add)
    assert copy.deepcopy(compiled_add) is compiled_add
    assert weakref.ref(compiled_add)() is compiled_add


@graphwright.compile(backend="eager")
def decorated(x: Any) -> Any:
    return x


def test_a_compiled_function_pickles_by_reference() -> None:
    assert pickle.loads(pickle.dumps(decorated)) is decorated


def test_wrong_arguments_of_a_call_raise_what_python_raises() -> None:
    for args, kwargs in [((), {}), ((1, 2, 3), {}), ((1,), {"nope": 1}), ((1,), {"x": 1})]:
        with pytest.raises(TypeError) as want:
            add(*args, **kwargs)
        with pytest.raises(TypeError) as got:
            compiled_add(*args, **kwargs)
        assert str(got.value) == str(want.value)


def test_compiling_again_changes_the_way() -> None:
    counter = CompileCounter()
    again = graphwright.compile(compiled_add, backend=counter)
    assert again.__wrapped__ is add
    assert torch.equal(again(X), X + 1)
    assert counter.frame_count == 1


def test_two_compiles_of_one_function_share_entries() -> None:
    counter = CompileCounter()
    for _ in range(3):
        graphwright.compile(add, backend=counter)(X)
    assert counter.frame_count == 1


def test_disable_returns_the_function() -> None:
    assert graphwright.compile(add, disable=True) is add


# ------------------------------------------------------------------ functions with suspended frames


def generator(x: Any) -> Iterator[Any]:
    yield x + 1


async def coroutine(x: Any) -> Any:
    return x + 1


async def async_generator(x: Any) -> AsyncIterator[Any]:
    yield x + 1


@pytest.mark.parametrize(
    ("fn", "kind"),
    [
        (generator, "a generator function"),
        (coroutine, "a coroutine function"),
        (async_generator, "an async generator function"),
    ],
)
def test_suspending_functions_run_in_eager_visibly(fn: Any, kind: str) -> None:
    with events.collected(events.FrameSkipped) as found:
        assert graphwright.compile(fn, backend="eager") is fn
    (event,) = found
    assert isinstance(event, events.FrameSkipped)
    assert (event.function, event.reason) == (fn.__name__, f"it is {kind}; its body runs in eager")
    assert event.location is not None
    assert event.location.line == fn.__code__.co_firstlineno
    with pytest.raises(Unsupported, match=f"GW0013 .*{fn.__name__} is {kind}") as error:
        graphwright.compile(fn, backend="eager", fullgraph=True)
    assert error.value.gw_id == "GW0013"


# ------------------------------------------------------------------ wrong arguments


class HalfABackend:
    name = "half"
    capabilities = Capabilities()


@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        ({"fn": 3}, TypeError, "fn must be a function, a callable object or a module, not 3 (int)"),
        ({"fn": Adder}, TypeError, "fn is the class Adder"),
        ({"fn": torch.nn.Linear}, TypeError, "fn is the class Linear"),
        ({"dynamic": 1}, TypeError, "dynamic must be None, True or False, not 1 (int)"),
        ({"dynamic": "yes"}, TypeError, "dynamic must be None, True or False, not 'yes'"),
        ({"fullgraph": 1}, TypeError, "fullgraph must be True or False"),
        ({"fullgraph": None}, TypeError, "fullgraph must be True or False"),
        ({"disable": 1}, TypeError, "disable must be True or False"),
        ({"mode": 3}, TypeError, "mode must be a name or None, not 3"),
        ({"options": 3}, TypeError, "options must be a dict"),
        ({"backend": 3}, TypeError, "backend must be a name, a Backend object or a callable"),
        ({"backend": dict}, TypeError, "backend must be a name"),
        ({"backend": HalfABackend()}, BackendContractError, "backend 'half' (an object of"),
        ({"backend": HalfABackend()}, BackendContractError, "has no attribute 'compile'"),
        ({"backend": HalfABackend}, BackendContractError, "the backend is the class HalfABackend; name an instance"),
        ({"backend": "eager", "fallback_backend": HalfABackend()}, BackendContractError, "the fallback that was asked"),
        ({"backend": "eagre"}, ValueError, "'eagre'"),
        ({"backend": ""}, ValueError, "empty"),
        ({"options": {"nope": 1}}, TypeError, "'nope'"),
        ({"mode": "max-autotune"}, ValueError, "'max-autotune'"),
        ({"backend": lambda gm: gm}, TypeError, "(gm, example_inputs)"),
    ],
)
def test_wrong_arguments_are_named(kwargs: dict[str, Any], error: type[Exception], text: str) -> None:
    given = {"fn": add, "backend": "eager", **kwargs}
    with pytest.raises(error) as caught:
        graphwright.compile(**given)
    assert text in str(caught.value)
    assert isinstance(caught.value, (graphwright.exc.GraphwrightError, graphwright_plugins.PluginError))


def test_unknown_keyword_is_pythons_own_error() -> None:
    with pytest.raises(TypeError, match="bakend"):
        graphwright.compile(add, bakend="eager")  # type: ignore[call-overload]


def test_unknown_backend_lists_what_is_there() -> None:
    with pytest.raises(graphwright_plugins.UnknownBackend, match=r"'eager'.*pip install"):
        graphwright.compile(add, backend="no_such_backend_at_all")


# ------------------------------------------------------------------ backends


def test_default_backend_is_told() -> None:
    with events.collected(events.BackendChosen) as found:
        graphwright.compile(add)
    (event,) = found
    assert isinstance(event, events.BackendChosen)
    assert event.backend in ("eager", "inductor_gpu")
    assert event.reason


def _not_installed() -> list[Any]:
    return []


def _cannot_work(*args: Any, **kwargs: Any) -> Any:
    raise graphwright_plugins.BackendUnavailable("", reason="no C++ compiler", remedy="Install one.")


def _disabled(*args: Any, **kwargs: Any) -> Any:
    raise graphwright_plugins.BackendDisabled("backend 'inductor_gpu' is blocked; take it out of there.")


def _broken(*args: Any, **kwargs: Any) -> Any:
    raise graphwright_plugins.PluginLoadError("it can't be loaded. Report it.")


@pytest.mark.parametrize(
    ("name", "function", "expected"),
    [
        (
            "list_backends",
            _not_installed,
            r"it is not installed; 'eager' runs.* `pip install graphwright-inductor-gpu`",
        ),
        ("resolve_backend", _cannot_work, r"no C\+\+ compiler; 'eager' runs .* Install one"),
        (
            "resolve_backend",
            _disabled,
            r"is off: it is blocked by GRAPHWRIGHT_DISABLED_PLUGINS; 'eager' runs .* faster\. Take it out of there\. W",
        ),
        ("resolve_backend", _broken, r"is off: it can't be loaded\. Report it; 'eager' runs .* faster\. Without"),
    ],
)
def test_one_warning_where_the_default_backend_is_missing(
    name: str, function: Any, expected: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("graphwright_inductor_gpu") if name == "resolve_backend" else None
    monkeypatch.setattr(api, name, function)
    with events.collected(events.BackendChosen) as found, caplog.at_level("WARNING"):
        for _ in range(2):
            compiled = graphwright.compile(add)
    assert [event.backend for event in found] == ["eager", "eager"]
    (record,) = caplog.records
    assert re.search(expected, record.getMessage())
    assert torch.equal(compiled(X), add(X))


def test_backends_are_listed_and_looked_up() -> None:
    assert {"eager", "aot_eager"} <= {info.name for info in graphwright.list_backends()}
    gm = torch.fx.symbolic_trace(torch.nn.ReLU())
    compiled = graphwright.lookup_backend("eager")(gm, [X])
    assert torch.equal(compiled(X), X)


def test_a_callable_is_a_backend() -> None:
    counter = CompileCounter()
    graphwright.compile(add, backend=counter)(X)
    assert (counter.frame_count, counter.op_count) == (1, 2)


# ------------------------------------------------------------------ life


def test_compiled_function_dies_with_its_last_reference() -> None:
    def fn(x: Any) -> Any:
        return x + 1

    compiled = graphwright.compile(fn, backend="eager")
    compiled(X)
    gone = weakref.ref(fn), weakref.ref(compiled)
    del fn, compiled
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_reset_forgets_entries() -> None:
    counter = CompileCounter()
    compiled = graphwright.compile(add, backend=counter)
    compiled(X)
    graphwright.reset()
    compiled(X)
    assert counter.frame_count == 2


def test_public_names_exist() -> None:
    for name in graphwright.__all__:
        assert hasattr(graphwright, name), name
    assert CompileArgumentError is graphwright.exc.CompileArgumentError


def test_a_failing_backend_is_an_event():
    def broken(graph, example_inputs):
        raise ValueError("no such kernel")

    with (
        graphwright.events.collected(graphwright.events.BackendFailed) as found,
        pytest.raises(graphwright.exc.BackendCompilerFailed, match="no such kernel") as raised,
    ):
        graphwright.compile(lambda x: x + 1, backend=broken)(torch.ones(2))
    [event] = found
    assert event.error is raised.value
    assert event.backend in str(raised.value)
