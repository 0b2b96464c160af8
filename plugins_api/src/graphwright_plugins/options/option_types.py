"""Whether a value fits a field's annotation."""

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from graphwright_plugins.errors import BackendContractError

_SEQUENCE_ORIGINS = (list, Sequence, set, frozenset, Iterable)
_MAPPING_ORIGINS = (dict, Mapping)


def matches(value: object, annotation: Any) -> bool:
    """Tell whether a value may be given for a field of this annotation.

    An int is accepted for float; a bool is not accepted for int or float.

    Raises:
        BackendContractError: The annotation is of a kind that options can't have.
    """
    if annotation is Any or annotation is object:
        return True
    if annotation is None or annotation is type(None):
        return value is None
    origin = get_origin(annotation)
    if origin is not None:
        return _matches_generic(value, annotation, origin)
    if annotation is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(annotation, type):
        return isinstance(value, annotation)
    raise BackendContractError(
        f"an option's annotation must be a class, a union, a Literal or a container of these, not {annotation!r}"
    )


def _matches_generic(value: object, annotation: Any, origin: Any) -> bool:
    arguments = get_args(annotation)
    if origin is Union or origin is types.UnionType:
        return any(matches(value, argument) for argument in arguments)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in arguments)
    if origin is Callable:
        return callable(value)
    if origin is type:
        return isinstance(value, type)
    if origin is tuple:
        return _matches_tuple(value, arguments)
    if origin in _MAPPING_ORIGINS:
        return isinstance(value, origin) and all(
            matches(key, arguments[0]) and matches(item, arguments[1]) for key, item in value.items()
        )
    if origin in _SEQUENCE_ORIGINS:
        # A string is a sequence of strings, which is never what an option of many values means.
        return (
            isinstance(value, origin)
            and not isinstance(value, (str, bytes))
            and all(matches(item, arguments[0]) for item in value)
        )
    raise BackendContractError(f"an option's annotation can't be {annotation!r}: this kind of generic isn't known")


def _matches_tuple(value: object, arguments: tuple[Any, ...]) -> bool:
    if not isinstance(value, tuple):
        return False
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return all(matches(item, arguments[0]) for item in value)
    return len(value) == len(arguments) and all(map(matches, value, arguments))


def describe(annotation: Any) -> str:
    """Write an annotation as a user would read it: `'fast' or 'small'`, `int or None`."""
    if annotation is None or annotation is type(None):
        return "None"
    origin = get_origin(annotation)
    if origin is Literal:
        return " or ".join(map(repr, get_args(annotation)))
    if origin is Union or origin is types.UnionType:
        return " or ".join(map(describe, get_args(annotation)))
    if origin is None and isinstance(annotation, type):
        if issubclass(annotation, Enum):
            return f"{annotation.__name__} ({', '.join(map(str, annotation))})"
        return annotation.__name__
    return str(annotation).replace("typing.", "").replace("collections.abc.", "")
