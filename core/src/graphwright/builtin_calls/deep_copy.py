"""A stand-in for `copy.deepcopy` in Python that the translator inlines."""

from __future__ import annotations

import copyreg
import types
from typing import Any

import torch

_ATOMIC = (
    int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented), type,
    range, types.FunctionType, types.BuiltinFunctionType, property, torch.dtype, torch.device, torch.layout,
    torch.memory_format,
)  # fmt: skip
_NOTHING: list[Any] = []
_OWN_WAYS = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")


def has_own_copying(cls: type) -> bool:
    """Whether a class says itself how its objects are copied, or has more to copy than attributes."""
    own = any(getattr(cls, name, None) is not getattr(object, name, None) for name in _OWN_WAYS)
    slots = any(getattr(base, "__slots__", ()) for base in cls.__mro__ if base is not object)
    return own or slots or cls in copyreg.dispatch_table


def new_like(value: Any) -> Any:
    """An empty object of the same class; handled by the table of builtins."""
    return object.__new__(type(value))


def deepcopy(value: Any, memo: Any = None) -> Any:
    """`copy.deepcopy`: containers and plain objects. Source: CPython's Lib/copy.py."""
    if memo is None:
        memo = {}
    key = id(value)
    found = memo.get(key, _NOTHING)
    if found is not _NOTHING:
        return found
    cls = type(value)
    if cls in _ATOMIC or issubclass(cls, type):
        return value
    copier = getattr(cls, "__deepcopy__", None)
    if copier is not None:
        made = copier(value, memo)
    elif cls is list:
        made = []
        memo[key] = made
        for item in value:
            made.append(deepcopy(item, memo))
    elif cls is dict:
        made = {}
        memo[key] = made
        for item_key, item in value.items():
            made[deepcopy(item_key, memo)] = deepcopy(item, memo)
    elif cls is tuple:
        return _tuple_copy(value, memo)
    else:
        made = new_like(value)
        memo[key] = made
        for name, item in value.__dict__.items():
            made.__dict__[name] = deepcopy(item, memo)
    memo[key] = made
    return made


def _tuple_copy(value: tuple[Any, ...], memo: Any) -> tuple[Any, ...]:
    made = tuple([deepcopy(item, memo) for item in value])
    for before, after in zip(value, made, strict=True):
        if before is not after:
            return made
    return value
