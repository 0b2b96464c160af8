"""Marks on functions that tell capture what to do with them.

`disable`, `allow_in_graph`, `substitute_in_graph`, `assume_constant_result` and `graph_break` are what users write; the
predicates below them are what capture asks. The predicates also honour the marks that libraries carry for
`torch.compile`. Marks are kept by identity and weakly, in registries, and not as attributes of the function:
`functools.wraps` copies attributes, and a wrapper of a marked function is not marked.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Generic, TypeVar

import torch

import graphwright._native as _native
import graphwright.torch_compat as torch_compat
from graphwright.exc import CompileArgumentError, CompileValueError
from graphwright_plugins import CaptureAdvice, ResolvedBackend

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class IdentityRegistry(Generic[T]):
    """Values for objects by identity; an entry goes with its object where that can be referenced weakly."""

    def __init__(self) -> None:
        self._values: dict[int, tuple[Any, T]] = {}

    def set(self, key: object, value: T) -> None:
        """Remember a value for an object."""
        index = id(key)
        try:
            reference: Any = weakref.ref(key, lambda _: self._values.pop(index, None))
        except TypeError:
            reference = lambda: key  # noqa: E731  kept alive, so that its id means nothing else
        self._values[index] = (reference, value)

    def get(self, key: object) -> T | None:
        """The value for an object, or None."""
        found = self._values.get(id(key))
        return found[1] if found is not None and found[0]() is key else None

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None

    def discard(self, key: object) -> None:
        """Forget an object."""
        if key in self:
            del self._values[id(key)]


@dataclass(frozen=True, slots=True)
class DisableMark:
    """Why a function is not to be captured."""

    reason: str
    """What the person who marked it gave as reason; may be empty."""
    recursive: bool
    """Whether what it calls is left to the interpreter too."""
    marker: str
    """How it was marked, for messages."""

    def __str__(self) -> str:
        return f"marked by {self.marker}" + (f" ({self.reason})" if self.reason else "")


@dataclass(frozen=True, slots=True)
class Substitute:
    """A Python function that capture looks into in place of another one."""

    function: Callable[..., Any]
    """The stand-in."""
    can_constant_fold_through: bool
    """Whether the original may be run at capture time on constant arguments."""


class _Advice:
    """The advice of the backend that is captured for, by identity of functions."""

    def __init__(self, advice: CaptureAdvice, backend: str) -> None:
        self.advice = advice  # keeps the functions alive, so that their ids mean them
        self.whole = frozenset(map(id, map(_function_of, advice.keep_whole)))
        self.out = frozenset(map(id, map(_function_of, advice.leave_out)))
        self.mark = DisableMark(advice.reason, False, f"backend {backend!r}, which leaves it out of its graphs")


def _function_of(fn: Any) -> Any:
    return fn.__func__ if isinstance(fn, MethodType) else fn


_advice: ContextVar[_Advice | None] = ContextVar("graphwright_capture_advice", default=None)
_disabled: IdentityRegistry[DisableMark] = IdentityRegistry()
_in_graph: IdentityRegistry[bool] = IdentityRegistry()
_constant_result: IdentityRegistry[bool] = IdentityRegistry()
_substitutes: IdentityRegistry[Substitute] = IdentityRegistry()


# ------------------------------------------------------------------ what users write


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Leave a function to the interpreter.

    Args:
        fn: A function, method, `classmethod`, `staticmethod` or class (whose `forward`, or else `__call__`, is meant).
            None makes a decorator.
        recursive: Also leave alone whatever it calls.
        reason: Shown where the function breaks a graph.

    Returns:
        A function that does the same as `fn`, with the mark; a class is changed in place and returned.

    Raises:
        CompileArgumentError: `fn` cannot be called, or another argument is of the wrong type.
    """
    check_disable_arguments(recursive, reason)
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    mark = DisableMark(reason or "", recursive, "graphwright.disable")
    if isinstance(fn, type):
        name = "forward" if issubclass(fn, torch.nn.Module) else "__call__"
        if not callable(getattr(fn, name, None)) or (name == "__call__" and "__call__" not in _attributes(fn)):
            raise CompileArgumentError(f"graphwright.disable: instances of {fn!r} cannot be called; mark its methods")
        setattr(fn, name, _disabled_wrapper(getattr(fn, name), mark))
        return fn
    if isinstance(fn, (classmethod, staticmethod)):
        return type(fn)(disable(fn.__func__, recursive, reason=reason))
    if isinstance(fn, MethodType):
        return MethodType(disable(fn.__func__, recursive, reason=reason), fn.__self__)
    if not callable(fn):
        raise CompileArgumentError(f"graphwright.disable: fn must be callable, not {fn!r} ({type(fn).__name__})")
    return _disabled_wrapper(fn, mark)


def check_disable_arguments(recursive: object, reason: object) -> None:
    """Refuse what `disable` cannot take.

    Raises:
        CompileArgumentError: one of them is of the wrong type.
    """
    if not isinstance(recursive, bool):
        raise CompileArgumentError(
            f"graphwright.disable: recursive must be True or False, not {recursive!r}"
            + ("; a reason is given as reason=..." if isinstance(recursive, str) else "")
        )
    if reason is not None and not isinstance(reason, str):
        raise CompileArgumentError(f"graphwright.disable: reason must be text or None, not {reason!r}")


def _attributes(cls: type) -> set[str]:
    return {name for base in cls.__mro__ for name in vars(base)}


def _disabled_wrapper(fn: Callable[..., Any], mark: DisableMark) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(fn) or inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        _disabled.set(fn, mark)  # a wrapper would return before the body runs
        return fn
    if mark.recursive:

        def disabled(*args: Any, **kwargs: Any) -> Any:
            enter_capture()  # compiled functions met inside run their originals
            try:
                return fn(*args, **kwargs)
            finally:
                leave_capture()
    else:

        def disabled(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

    wrapper = functools.update_wrapper(disabled, fn)
    _disabled.set(wrapper, mark)
    return wrapper


enter_capture = _native.enter_capture
leave_capture = _native.leave_capture


def allow_in_graph(fn: F | list[F] | tuple[F, ...]) -> Any:
    """Put calls of a function into the graph as they are, without looking into it.

    The function must take and return only tensors, numbers, dtypes, devices and plain containers of these, and have no
    effect besides its result.

    Args:
        fn: A function, or a list or tuple of functions.

    Returns:
        `fn` itself.

    Raises:
        CompileArgumentError: `fn` cannot be called.
    """
    for each in fn if isinstance(fn, (list, tuple)) else (fn,):
        if not callable(each):
            raise CompileArgumentError(f"graphwright.allow_in_graph: fn must be callable, not {each!r}")
        _in_graph.set(each, True)
    return fn


def assume_constant_result(fn: F) -> F:
    """Run a function at capture time and take its result for constant: it is not called again.

    Args:
        fn: A function whose result never changes for equal arguments. Nothing checks that.

    Returns:
        `fn` itself.

    Raises:
        CompileArgumentError: `fn` cannot be called.
    """
    if not callable(fn):
        raise CompileArgumentError(f"graphwright.assume_constant_result: fn must be callable, not {fn!r}")
    _constant_result.set(fn, True)
    return fn


def substitute_in_graph(
    original_fn: Callable[..., Any], *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[F], F]:
    """Give capture a Python function to look into in place of one it cannot look into.

    Args:
        original_fn: The function to stand in for, usually one written in C. Outside of captures it is called as ever.
        can_constant_fold_through: `original_fn` is pure: with constant arguments it may be run at capture time.
        skip_signature_check: Do not compare the two signatures.

    Returns:
        A decorator for the stand-in, which returns it unchanged.

    Raises:
        CompileArgumentError: One of the two cannot be called, or their signatures differ.
        CompileValueError: `original_fn` has a stand-in already.
    """
    original: Any = original_fn
    if isinstance(original, type) or not callable(original):
        raise CompileArgumentError(
            f"graphwright.substitute_in_graph: original_fn must be a function, not {original_fn!r}"
        )

    def register(stand_in: F) -> F:
        if not callable(stand_in):
            raise CompileArgumentError(
                f"graphwright.substitute_in_graph: the stand-in must be callable, not {stand_in!r}"
            )
        if original_fn in _substitutes:
            raise CompileValueError(f"graphwright.substitute_in_graph: {original_fn!r} has a stand-in already")
        if not skip_signature_check:
            _check_signatures(original_fn, stand_in)
        _substitutes.set(original_fn, Substitute(stand_in, can_constant_fold_through))
        return stand_in

    return register


def _check_signatures(original: Callable[..., Any], stand_in: Callable[..., Any]) -> None:
    try:
        wanted = inspect.signature(original)
    except (TypeError, ValueError):  # written in C, without a signature
        return
    found = inspect.signature(stand_in)
    if [(p.name, p.kind) for p in wanted.parameters.values()] != [(p.name, p.kind) for p in found.parameters.values()]:
        raise CompileArgumentError(
            f"graphwright.substitute_in_graph: {stand_in!r} takes {found}, but {original!r} takes {wanted}; give it "
            "the same parameters, or pass skip_signature_check=True"
        )


def graph_break(reason: str = "") -> None:
    """End the graph here. Does nothing outside of a capture.

    Args:
        reason: Shown with the graph break.
    """


def is_compiling() -> bool:
    """Whether a compiler is capturing the calling code; a compiled function sees True wherever it is captured."""
    return torch.compiler.is_compiling()


# ------------------------------------------------------------------ what capture asks


@contextlib.contextmanager
def advised_by(backend: ResolvedBackend) -> Iterator[None]:
    """Capture as a backend advises."""
    advice = backend.capture_advice
    token = _advice.set(None if advice is None else _Advice(advice, backend.name))
    try:
        yield
    finally:
        _advice.reset(token)


def why_left_out(fn: object) -> DisableMark | None:
    """The mark of the backend's advice that keeps a function out of its graphs, or None."""
    advice = _advice.get()
    return advice.mark if advice is not None and id(fn) in advice.out else None


def why_disabled(fn: object) -> DisableMark | None:
    """The mark that forbids to capture a function, Graphwright's or torch's or the backend's advice, or None."""
    mark = why_left_out(fn) or _disabled.get(fn)
    if mark is None and isinstance(fn, FunctionType):
        found = torch_compat.torch_disable_mark(fn)
        if found is not None:
            return DisableMark(found[0] or "", found[1], "torch.compiler.disable")
    return mark


def is_allowed_in_graph(fn: object) -> bool:
    """Whether calls of a function go into the graph unopened, by a mark, torch's too, or by the backend's advice."""
    advice = _advice.get()
    if advice is not None and id(fn) in advice.whole:
        return True
    return fn in _in_graph or torch_compat.is_torch_allowed_in_graph(fn)


def has_constant_result(fn: object) -> bool:
    """Whether a function's result is taken for constant, by Graphwright's mark or torch's."""
    return fn in _constant_result or (isinstance(fn, FunctionType) and torch_compat.is_torch_constant_result(fn))


def substitute_of(fn: object) -> Substitute | None:
    """What to look into in place of a function, or None."""
    found = _substitutes.get(fn)
    if found is None and callable(fn):
        stand_in = torch_compat.torch_substitute(fn)
        return None if stand_in is None else Substitute(stand_in, False)
    return found


def is_graph_break(fn: object) -> bool:
    """Whether calling a function means to end the graph: `graphwright.graph_break`, or torch's."""
    return fn is graph_break or torch_compat.is_torch_graph_break(fn)


def is_compiling_query(fn: object) -> bool:
    """Whether a function asks if it is being captured, which capture answers with True."""
    return fn is is_compiling or fn is torch.compiler.is_compiling or fn is torch.compiler.is_dynamo_compiling
