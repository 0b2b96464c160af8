"""Binding call arguments to the parameters of a code object, as CPython does."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


class BindingError(Exception):
    """The arguments do not fit; the message is the one of the TypeError that CPython raises."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameter names of a code object, by kind."""

    positional_only: int
    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    varargs: str | None
    varkw: str | None

    @staticmethod
    def of(code: types.CodeType) -> Parameters:
        """The parameters of `code`."""
        names, count, kwonly = code.co_varnames, code.co_argcount, code.co_kwonlyargcount
        after = count + kwonly
        varargs = varkw = None
        if code.co_flags & inspect.CO_VARARGS:
            varargs, after = names[after], after + 1
        if code.co_flags & inspect.CO_VARKEYWORDS:
            varkw = names[after]
        return Parameters(code.co_posonlyargcount, names[:count], names[count : count + kwonly], varargs, varkw)


@dataclass(slots=True)
class Bound(Generic[T]):
    """Arguments by parameter name; `rest` and `named` are what goes to ``*args`` and ``**kwargs``."""

    values: dict[str, T]
    rest: list[T]
    named: dict[str, T]


def bind_arguments(
    code: types.CodeType,
    args: list[T],
    kwargs: dict[str, T],
    default: Callable[[str, int], T | None],
) -> Bound[T]:
    """Give each parameter its argument or default.

    Args:
        default: called with a parameter's name and its distance from the last positional parameter (-1: keyword-only).

    Raises:
        BindingError: the arguments do not fit.
    """
    parameters = Parameters.of(code)
    bound: Bound[T] = Bound({}, [], {})
    fits = len(args) <= len(parameters.positional) or parameters.varargs is not None
    bound.values.update(zip(parameters.positional, args, strict=False))
    bound.rest = list(args[len(parameters.positional) :])
    by_name = {*parameters.positional[parameters.positional_only :], *parameters.keyword_only}
    for name, value in kwargs.items():
        if name in by_name:
            fits = fits and name not in bound.values
            bound.values[name] = value
        elif parameters.varkw is not None:
            bound.named[name] = value
        else:
            fits = False
    last = len(parameters.positional)
    for i, name in enumerate((*parameters.positional, *parameters.keyword_only)):
        if name not in bound.values:
            value_or_none = default(name, last - i if i < last else -1)
            if value_or_none is None:
                fits = False
            else:
                bound.values[name] = value_or_none
    if not fits:
        raise BindingError(_message(code, len(args), tuple(kwargs), default, parameters))
    return bound


def _message(
    code: types.CodeType,
    count: int,
    names: tuple[str, ...],
    default: Callable[[str, int], T | None],
    parameters: Parameters,
) -> str:
    """CPython's own message, from a call of a function with the same parameters that cannot succeed."""
    last = len(parameters.positional)
    has_default = [default(n, last - i) is not None for i, n in enumerate(parameters.positional)]
    defaults = tuple(None for has in has_default if has)
    cells = tuple(types.CellType() for _ in code.co_freevars)
    twin = types.FunctionType(code, {}, code.co_name, defaults, cells)
    twin.__qualname__ = code.co_qualname
    twin.__kwdefaults__ = {n: None for n in parameters.keyword_only if default(n, -1) is not None}
    try:
        twin(*[None] * count, **dict.fromkeys(names))
    except TypeError as error:
        return str(error)
    return f"{code.co_qualname}() was called with arguments that do not fit"
