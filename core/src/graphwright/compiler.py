"""Compiling each kind of callable: functions, methods, partials, callable objects, modules."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

import torch

import graphwright._native as _native
import graphwright.events as events
import graphwright.torch_compat as torch_compat
from graphwright.cache_key import CacheKey, intern_key
from graphwright.compiled_module import make_compiled_module, original_module
from graphwright.exc import CodeLocation, CompileArgumentError, CompileValueError, Unsupported
from graphwright.frame_filter import EXPECTED_CODE
from graphwright.frames.convert import convert_frame
from graphwright.graph_breaks import GENERATOR_ESCAPES
from graphwright_plugins import OnBackendError, ResolvedBackend, resolve_backend
from graphwright_plugins.loading.contract import looks_like_backend


@dataclass(frozen=True)
class CompileSpec:
    """How to compile, as the user said it."""

    backend: Any
    """A name, a `Backend` object, or a callable."""
    fullgraph: bool = False
    """Whether a graph break is an error."""
    dynamic: bool | None = None
    """Sizes symbolic from the start (True), never (False), or where they changed (None)."""
    options: Mapping[str, Any] | None = None
    """Options of the backend."""
    mode: str | None = None
    """A named bundle of the backend's options."""
    on_backend_error: OnBackendError = "raise"
    """What to do where the backend fails to compile a graph."""
    fallback_backend: Any = None
    """What runs what the backend does not; None for what it names."""


class FunctionCompiler:
    """Compiles callables in one way, and keeps the backend alive for those it compiled."""

    def __init__(self, spec: CompileSpec, key: CacheKey, backend: ResolvedBackend) -> None:
        self.spec = spec
        self.key = key
        self.backend = backend

    def __reduce__(self) -> tuple[Any, ...]:
        return make_compiler, (self.spec,)

    def convert(self, function: FunctionType, args: tuple[Any, ...], key: CacheKey) -> Any:
        """Capture a frame of a function: what the native side calls when no cached entry fits."""
        return convert_frame(function, args, key)

    def compile(self, fn: Any) -> Any:
        """Compile a callable of any kind.

        Raises:
            CompileArgumentError: `fn` is of no kind that can be compiled.
            CompileValueError: `fn` is of such a kind, but this one cannot be compiled.
        """
        if isinstance(fn, torch.nn.Module):  # by isinstance before anything else: a module may define anything
            return self.module(fn)
        if isinstance(fn, type):
            raise CompileArgumentError(
                f"graphwright.compile: fn is the class {fn.__qualname__}; compile an instance, or one of its methods"
            )
        for kind, rule in _RULES:
            if isinstance(fn, kind):
                return rule(self, fn)
        if not callable(fn):
            raise CompileArgumentError(
                f"graphwright.compile: fn must be a function, a callable object or a module, "
                f"not {fn!r} ({type(fn).__name__})"
            )
        return self._callable_object(fn)

    def function(self, function: FunctionType) -> Callable[..., Any]:
        """Compile a plain function; one with a suspended frame (generator, coroutine) is left as it is."""
        kind = _suspending_kind(function)
        if kind is None:
            EXPECTED_CODE.add(function.__code__)
            return _native.Compiled(function, self.key, self.convert)
        location = _location(function)
        if self.spec.fullgraph:
            message = f"{function.__qualname__} is {kind}, which runs in eager as a whole"
            raise Unsupported(
                f"{GENERATOR_ESCAPES.gw_id} in {location}: {message}. Compile the functions it calls.",
                gw_id=GENERATOR_ESCAPES.gw_id,
                reason=message,
                location=str(location),
                remedy="Compile the functions it calls.",
            )
        events.emit(
            events.FrameSkipped(
                function=function.__qualname__,
                location=location,
                reason=f"it is {kind}; its body runs in eager",
                remedy="Compile the functions it calls.",
            )
        )
        return function

    def attribute(self, function: Any) -> Any:
        """Compile what sits on a module as `forward`; left alone if it is compiled already or of no kind we compile."""
        inner = function.__func__ if isinstance(function, MethodType) else function
        if isinstance(inner, _native.Compiled) or isinstance(function, type) or not callable(function):
            return function
        return self.compile(function)

    def module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Compile a module: another module that shares its state."""
        module = original_module(module) or module
        if torch_compat.is_script_module(module):
            name = type(module).__qualname__
            events.emit(events.FrameSkipped(function=name, reason="it is TorchScript, which is compiled already"))
            return module
        return make_compiled_module(module, self)

    def _compiled(self, fn: Any) -> Any:
        return fn if fn.__wrapped__ is None else self.function(fn.__wrapped__)

    def _method(self, fn: MethodType) -> Any:
        return MethodType(self.compile(fn.__func__), fn.__self__)

    def _descriptor(self, fn: Any) -> Any:
        return type(fn)(self.compile(fn.__func__))

    def _partial(self, fn: functools.partial[Any]) -> Any:
        compiled = type(fn)(self.compile(fn.func), *fn.args, **fn.keywords)
        compiled.__dict__.update(fn.__dict__)
        return compiled

    def _callable_object(self, fn: Any) -> Any:
        """An object: its class's `__call__`, compiled and bound; a compiled call of it where that is written in C."""
        call = inspect.getattr_static(type(fn), "__call__", None)
        if isinstance(call, FunctionType):
            return MethodType(self.compile(call), fn)
        return self.function(_calling(fn))


_RULES: tuple[tuple[type, Callable[[FunctionCompiler, Any], Any]], ...] = (
    (FunctionType, FunctionCompiler.function),
    (_native.Compiled, FunctionCompiler._compiled),
    (MethodType, FunctionCompiler._method),
    (classmethod, FunctionCompiler._descriptor),
    (staticmethod, FunctionCompiler._descriptor),
    (functools.partial, FunctionCompiler._partial),
)


def make_compiler(spec: CompileSpec) -> FunctionCompiler:
    """Check a way to compile and find its backend.

    Raises:
        CompileArgumentError: A value of the wrong type.
        graphwright_plugins.PluginError: The backend or its options are wrong; the subclass says how.
    """
    _check_spec(spec)
    resolved = resolve_backend(
        spec.backend,
        spec.options,
        mode=spec.mode,
        fallback=spec.fallback_backend,
        on_error=spec.on_backend_error,
    )
    resolved.prepare()
    key, backend = intern_key(resolved, fullgraph=spec.fullgraph, dynamic=spec.dynamic)
    return FunctionCompiler(spec, key, backend)


def _check_spec(spec: CompileSpec) -> None:
    if not isinstance(spec.fullgraph, bool):
        raise _wrong("fullgraph", "True or False", spec.fullgraph)
    if spec.dynamic is not None and not isinstance(spec.dynamic, bool):
        raise _wrong("dynamic", "None, True or False", spec.dynamic)
    if spec.mode is not None and not isinstance(spec.mode, str):
        raise _wrong("mode", "a name or None", spec.mode)
    if spec.options is not None and not isinstance(spec.options, Mapping):
        raise _wrong("options", "a dict of option names and values, or None", spec.options)
    if not _may_be_backend(spec.backend):
        raise _wrong("backend", "a name, a Backend object or a callable (gm, example_inputs)", spec.backend)
    if spec.fallback_backend is not None and not _may_be_backend(spec.fallback_backend):
        expected = "a name, a Backend object or a callable (gm, example_inputs), or None"
        raise _wrong("fallback_backend", expected, spec.fallback_backend)
    if spec.fallback_backend is not None and spec.fallback_backend == spec.backend:
        raise CompileValueError(f"graphwright.compile: backend {spec.backend!r} cannot be its own fallback_backend")
    if spec.on_backend_error not in ("raise", "fallback"):
        raise CompileValueError(
            f"graphwright.compile: on_backend_error must be 'raise' or 'fallback', not {spec.on_backend_error!r}"
        )


def _may_be_backend(value: Any) -> bool:
    """Whether something is of a kind that backends are; what is wrong with it otherwise is told when it is resolved."""
    return looks_like_backend(value) or isinstance(value, str) or (callable(value) and not isinstance(value, type))


def _wrong(argument: str, expected: str, value: object) -> CompileArgumentError:
    return CompileArgumentError(
        f"graphwright.compile: {argument} must be {expected}, not {value!r} ({type(value).__name__})"
    )


def _suspending_kind(function: FunctionType) -> str | None:
    flags = function.__code__.co_flags
    for flag, kind in (
        (inspect.CO_ASYNC_GENERATOR, "an async generator function"),
        (inspect.CO_COROUTINE, "a coroutine function"),
        (inspect.CO_ITERABLE_COROUTINE, "a coroutine function"),
        (inspect.CO_GENERATOR, "a generator function"),
    ):
        if flags & flag:
            return kind
    return None


def _location(function: FunctionType) -> CodeLocation:
    code = function.__code__
    return CodeLocation(code.co_filename, code.co_firstlineno, function.__qualname__)


def _calling(fn: Callable[..., Any]) -> FunctionType:
    """A Python function that calls `fn`, with a code object, and so a cache, of its own."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    home = {"__name__": getattr(fn, "__module__", None) or "builtins"}
    own = FunctionType(call.__code__.replace(), home, call.__name__, None, call.__closure__)
    functools.update_wrapper(own, fn)
    return own
