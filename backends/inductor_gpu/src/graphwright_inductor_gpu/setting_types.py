"""Whether a value is of the type that torch annotates one of Inductor's settings with."""

from __future__ import annotations

import collections.abc
import types
from typing import Any, Literal, Union, get_args, get_origin


def fits(value: object, annotation: Any) -> bool:
    """Tell whether a setting may have a value, as far as its annotation is one that tells.

    A bool may be given for an int, as torch.compile allows, and an int for a float. Of containers only the kind counts,
    a list being as good as a tuple. A setting annotated with None alone may have any value: None is just its default.
    """
    if annotation is Any or annotation is None or annotation is type(None):
        return True
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        members = get_args(annotation)
        return type(None) in members if value is None else any(fits(value, e) for e in members if e is not type(None))
    if origin is Literal:
        return value in get_args(annotation)
    if origin is collections.abc.Callable:
        return callable(value)
    kind = origin or annotation
    if kind in (list, tuple):
        return isinstance(value, (list, tuple))
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind) if isinstance(kind, type) else True


def describe(annotation: Any) -> str:
    """An annotation as a user would read it: `int or None`."""
    origin = get_origin(annotation)
    if annotation is type(None):
        return "None"
    if origin in (Union, types.UnionType):
        return " or ".join(map(describe, get_args(annotation)))
    if origin is Literal:
        return " or ".join(map(repr, get_args(annotation)))
    if origin is collections.abc.Callable:
        return "a function"
    return getattr(origin or annotation, "__name__", str(annotation))
