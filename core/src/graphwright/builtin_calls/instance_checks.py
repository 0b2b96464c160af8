"""`isinstance`, `issubclass`, `callable` and `type`."""

from __future__ import annotations

import abc
import types
import typing
from typing import Any

import torch

import graphwright.graph_breaks as gb
from graphwright.builtin_calls.containers import callable_value, check
from graphwright.builtin_calls.registry import handles
from graphwright.builtin_calls.special_methods import find_special
from graphwright.trust import is_trusted_class
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.comparison import UNKNOWN, known_object
from graphwright.variables.method_table import run_model

VTs = list[VariableTracker]
_PROTOCOL_META = type(typing.Protocol)
_TENSOR_META = type(torch.Tensor)
_PARAMETER_METAS = (type(torch.nn.Parameter), type(torch.nn.Buffer))


@handles(isinstance)
def is_instance(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`isinstance(value, cls)`."""
    check(tx, isinstance, args, kwargs, 2, 2)
    return tx.wrap(instance_of(tx, args[0], _class_info(tx, args[1])))


@handles(issubclass)
def is_subclass(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`issubclass(cls, other)`."""
    check(tx, issubclass, args, kwargs, 2, 2)
    cls = _class_info(tx, args[0]) if args[0].is_python_constant() else None
    if cls is None:
        run_model(tx, issubclass, None, object)
    return tx.wrap(subclass_of(tx, cls, _class_info(tx, args[1])))


def _class_info(tx: Tx, vt: VariableTracker) -> Any:
    if vt.is_python_constant():
        return vt.as_python_constant()
    known = known_object(vt)
    if known is not UNKNOWN:
        return known
    if issubclass(vt.python_type(), (tuple, type)):
        tx.graph_break(gb.UNKNOWN_COMPARISON, "class check against classes that are not known while capturing")
    run_model(tx, isinstance, None, object())


def instance_of(tx: Tx, vt: VariableTracker, cls: Any) -> bool:
    """`isinstance(vt, cls)`. Source: `object_recursive_isinstance` in CPython's `Objects/abstract.c`."""
    kind = vt.python_type()
    if kind is cls:
        return True
    if type(cls) is tuple:
        return any(instance_of(tx, vt, c) for c in cls)
    if isinstance(cls, types.UnionType):
        return any(instance_of(tx, vt, c) for c in cls.__args__)
    if not isinstance(cls, type):
        run_model(tx, isinstance, None, cls)
        return bool(run_model(tx, issubclass, kind, cls))
    meta = type(cls)
    check_method = find_special(tx, meta, "__instancecheck__")
    assert check_method is not None
    owner = check_method[1]
    if owner is type:
        return cls in kind.__mro__ or _claims(tx, vt, cls)
    if owner is abc.ABCMeta:
        return subclass_of(tx, _claimed_class(tx, vt), cls)
    if owner is _PROTOCOL_META:
        return _fits_protocol(tx, kind, cls)
    if meta in _PARAMETER_METAS:
        return issubclass(kind, cls)
    if meta.__module__.startswith("torch") or not isinstance(check_method[0], types.FunctionType):
        tx.graph_break(
            gb.UNKNOWN_COMPARISON, f"isinstance with {cls.__module__}.{cls.__qualname__}, which checks in its own way"
        )
    own = tx.wrap(meta).getattr(tx, "__instancecheck__")
    return tx.call(own, [tx.wrap(cls), vt]).realize().truth(tx)


def _claimed_class(tx: Tx, vt: VariableTracker) -> type:
    """`vt.__class__`, which a property may make a lie."""
    kind = vt.python_type()
    found = find_special(tx, kind, "__class__")
    if found is None or found[1] is object:
        return kind
    claimed = vt.getattr(tx, "__class__").realize()
    result = claimed.as_python_constant() if claimed.is_python_constant() else None
    return result if isinstance(result, type) else kind


def _claims(tx: Tx, vt: VariableTracker, cls: type) -> bool:
    claimed = _claimed_class(tx, vt)
    return claimed is not vt.python_type() and cls in claimed.__mro__


def _fits_protocol(tx: Tx, kind: type, cls: type) -> bool:
    if cls in kind.__mro__:
        return True
    if not is_trusted_class(cls):
        tx.graph_break(gb.UNKNOWN_COMPARISON, f"isinstance with the protocol {cls.__qualname__}")
    return bool(run_model(tx, issubclass, kind, cls))


def subclass_of(tx: Tx, kind: Any, cls: Any) -> bool:
    """`issubclass(kind, cls)`."""
    if type(cls) is tuple:
        return any(subclass_of(tx, kind, c) for c in cls)
    if isinstance(cls, types.UnionType):
        return any(subclass_of(tx, kind, c) for c in cls.__args__)
    if isinstance(cls, type):
        found = find_special(tx, type(cls), "__subclasscheck__")
        hook = find_special(tx, cls, "__subclasshook__")
        own_check = found is not None and not (found[1] is type or is_trusted_class(found[1]))
        own_hook = hook is not None and not is_trusted_class(hook[1])
        if own_check or own_hook:
            tx.graph_break(gb.UNKNOWN_COMPARISON, f"class check with {cls.__qualname__}, which checks in its own way")
    return bool(run_model(tx, issubclass, kind, cls))


@handles(callable)
def is_callable(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`callable(value)`."""
    check(tx, callable, args, kwargs, 1, 1)
    return tx.wrap(callable_value(args[0]))


@handles(type)
def type_of(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`type(value)`; making a class by a call stops capture."""
    if len(args) == 3:
        tx.graph_break(gb.DYNAMIC_CODE, "a class made while the function runs")
    if len(args) != 1 or kwargs:
        run_model(tx, type, *[None] * len(args), **dict.fromkeys(kwargs))
    return tx.wrap(args[0].python_type())
