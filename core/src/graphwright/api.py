"""What users call: compile, reset, the choice of a backend."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, TypeVar, overload

import torch

import graphwright._native as _native
import graphwright.events as events
import graphwright.logs as logs
import graphwright.markers as markers
from graphwright.compiled_module import make_compiled_module, original_module
from graphwright.compiler import CompileSpec, make_compiler
from graphwright.exc import CompileArgumentError
from graphwright.frames.history import forget_histories
from graphwright_plugins import (
    DISABLED_VARIABLE,
    Backend,
    BackendDisabled,
    BackendUnavailable,
    GraphCompiler,
    OnBackendError,
    PluginError,
    close_backends,
    list_backends,
    resolve_backend,
)

F = TypeVar("F", bound=Callable[..., Any])

PREFERRED_BACKEND = "inductor_gpu"
PREFERRED_DISTRIBUTION = "graphwright-inductor-gpu"
FALLBACK_BACKEND = "eager"


@overload
def compile(
    fn: F,
    *,
    backend: str | Backend | GraphCompiler | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    on_backend_error: OnBackendError = "raise",
    fallback_backend: str | Backend | GraphCompiler | None = None,
    disable: bool = False,
) -> F: ...


@overload
def compile(
    fn: None = None,
    *,
    backend: str | Backend | GraphCompiler | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    on_backend_error: OnBackendError = "raise",
    fallback_backend: str | Backend | GraphCompiler | None = None,
    disable: bool = False,
) -> Callable[[F], F]: ...


def compile(
    fn: Any = None,
    *,
    backend: str | Backend | GraphCompiler | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    on_backend_error: OnBackendError = "raise",
    fallback_backend: str | Backend | GraphCompiler | None = None,
    disable: bool = False,
) -> Any:
    """Compile a function or a module.

    The first call captures the tensor work as graphs, gives them to the backend and remembers under which conditions
    they hold; later calls that meet the conditions run what the backend made. Results, effects and errors are those of
    the original; what cannot be captured is left to the interpreter, and an event says so.

    Args:
        fn: A function, lambda, method, `classmethod` or `staticmethod` object, `functools.partial`, object with a
            `__call__`, or `torch.nn.Module`. None makes a decorator. What was compiled already is compiled in this way
            instead. Generator and coroutine functions come back unchanged: their bodies run in eager.
        backend: A backend's name, a `Backend` object, or a callable `(gm, example_inputs) -> callable`. By default
            `"inductor_gpu"` where it is installed and can work, else `"eager"`, which runs the captured graphs as they
            are, with a warning that says what is missing; the event `BackendChosen` tells which.
        fullgraph: Raise `graphwright.exc.Unsupported` instead of leaving code to the interpreter.
        dynamic: Make sizes symbolic at once (True), never (False), or when they have changed (None). With True,
            ints and floats among the arguments become symbolic too. 0 and 1 never do.
        options: Options of the backend, by name.
        mode: A named bundle of the backend's options.
        on_backend_error: What to do where the backend fails to compile a graph: `"raise"` `BackendCompilerFailed`; or
            have the `"fallback"` backend run that graph, or the part of it that failed, with a warning and the event
            `BackendFellBack`.
        fallback_backend: What runs what the backend does not do, or failed on; by default what the backend names, or
            `"eager"`.
        disable: Return `fn` unchanged.

    Returns:
        Something of the same kind as `fn`: a method for a method, a partial for a partial, and for a module a module
        of the same class that shares its state and attributes. A function becomes a callable object that looks like it.

    Raises:
        CompileArgumentError: (a TypeError) an argument has a type that cannot be taken.
        CompileValueError: (a ValueError) `fn` is of a kind that can be compiled, but cannot be; or an argument has a
            value that it cannot take.
        graphwright_plugins.PluginError: the backend, one of its options or its mode is wrong, or it cannot work here.
    """
    if fn is None:
        return functools.partial(
            compile,
            backend=backend,
            fullgraph=fullgraph,
            dynamic=dynamic,
            options=options,
            mode=mode,
            on_backend_error=on_backend_error,
            fallback_backend=fallback_backend,
            disable=disable,
        )
    if not isinstance(disable, bool):
        raise CompileArgumentError(f"graphwright.compile: disable must be True or False, not {disable!r}")
    chosen = _default_backend() if backend is None else backend
    spec = CompileSpec(chosen, fullgraph, dynamic, options, mode, on_backend_error, fallback_backend)
    compiler = make_compiler(spec)
    return fn if disable else compiler.compile(fn)


def _default_backend() -> str:
    """The backend to use where none is named, told by an event; a warning too, where it is not the preferred one."""
    if all(info.name != PREFERRED_BACKEND for info in list_backends()):
        reason, remedy = "it is not installed", f"Install it by `pip install {PREFERRED_DISTRIBUTION}`."
    else:
        try:
            resolve_backend(PREFERRED_BACKEND)
        except BackendUnavailable as error:
            reason, remedy = error.reason, error.remedy
        except BackendDisabled:
            reason, remedy = f"it is blocked by {DISABLED_VARIABLE}", "Take it out of there."
        except PluginError as error:
            reason, remedy = str(error), ""
        else:
            events.emit(events.BackendChosen(backend=PREFERRED_BACKEND, reason="it is installed and can work here"))
            return PREFERRED_BACKEND
    reason = reason.removesuffix(".")  # what follows goes on after it
    events.emit(events.BackendChosen(backend=FALLBACK_BACKEND, reason=f"{PREFERRED_BACKEND!r}: {reason}"))
    events.emit(
        events.MechanismOff(
            mechanism=f"the default backend {PREFERRED_BACKEND!r}",
            reason=f"{reason}; {FALLBACK_BACKEND!r} runs in its place, which makes nothing faster",
            remedy=f"{remedy} Without a warning: backend={FALLBACK_BACKEND!r}.".lstrip(),
        )
    )
    return FALLBACK_BACKEND


def reset() -> None:
    """Forget everything that was captured, in all threads, and which places were reported. Compiled functions stay.

    Backends then give back what they hold: device memory, handles.

    Raises:
        graphwright_plugins.BackendContractError: a backend failed to; all else is done.
    """
    _native.reset_all()
    forget_histories()
    logs.forget_reported()
    close_backends()


class _DisablingCompiler:
    """Marks the parts of a module in place of compiling them."""

    def __init__(self, recursive: bool, reason: str | None) -> None:
        self._recursive = recursive
        self._reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return _DisablingCompiler, (self._recursive, self._reason)

    def function(self, function: FunctionType) -> Callable[..., Any]:
        disabled: Callable[..., Any] = self.attribute(function)
        return disabled

    def attribute(self, function: Any) -> Any:
        return markers.disable(function, self._recursive, reason=self._reason)

    def module(self, module: torch.nn.Module) -> torch.nn.Module:
        return make_compiled_module(original_module(module) or module, self)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Leave a function or module to the interpreter, also where compiled code calls it.

    Args:
        fn: A function, method, `classmethod`, `staticmethod`, module, or class (whose `forward`, or else `__call__`, is
            meant). None makes a decorator.
        recursive: Also leave alone whatever it calls.
        reason: Shown where the function breaks a graph.

    Returns:
        Something that does the same as `fn`, with the mark: for a module another face of it that shares its state. A
        class is changed in place and returned.

    Raises:
        CompileArgumentError: `fn` cannot be called, or another argument is of the wrong type.
    """
    markers.check_disable_arguments(recursive, reason)
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, torch.nn.Module):
        return _DisablingCompiler(recursive, reason).module(fn)
    return markers.disable(fn, recursive, reason=reason)
