"""Handlers for what makes and binds objects: super, functools.partial, descriptors' classes, record_function."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import types
import weakref

import torch

import graphwright.graph_breaks as gb
from graphwright.builtin_calls.deep_copy import deepcopy, has_own_copying, new_like
from graphwright.builtin_calls.registry import handles
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.cell import CellVariable
from graphwright.variables.function import BoundMethodVariable, UserFunctionVariable
from graphwright.variables.identity import IdentityNumberVariable, NewWeakReferenceVariable
from graphwright.variables.misc import PartialVariable
from graphwright.variables.super_proxy import SuperVariable
from graphwright.variables.user_defined import ObjectVariable

VTs = list[VariableTracker]


@handles(super)
def make_super(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`super()` and `super(cls, obj)`."""
    if kwargs:
        tx.raise_(TypeError, "super() takes no keyword arguments")
    if not args:
        start, owner = tx.zero_arg_super()
        return SuperVariable(start.realize(), owner.realize())
    if len(args) == 1:
        tx.graph_break(gb.UNKNOWN_CALL, "super() with one argument")
    if len(args) > 2:
        tx.raise_(TypeError, f"super expected at most 2 arguments, got {len(args)}")
    if not issubclass(args[0].python_type(), type):
        tx.raise_(TypeError, f"super() argument 1 must be a type, not {args[0].type_name()}")
    return SuperVariable(args[0], args[1])


@handles(functools.partial)
def make_partial(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`functools.partial(fn, *args, **kwargs)`; a partial of a partial is flattened."""
    if not args:
        tx.raise_(TypeError, "type 'partial' takes at least one argument")
    function = args[0]
    if isinstance(function, PartialVariable):
        return PartialVariable(function.function, [*function.args, *args[1:]], {**function.kwargs, **kwargs})
    return PartialVariable(function, args[1:], kwargs)


@handles(types.MethodType)
def make_method(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`types.MethodType(function, owner)`."""
    if len(args) != 2 or kwargs:
        tx.raise_(TypeError, f"method expected 2 arguments, got {len(args)}")
    return BoundMethodVariable(args[0], args[1])


@handles(types.CellType)
def make_cell(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`types.CellType(contents)`."""
    return CellVariable(args[0] if args else None)


@handles(id, first=True)
def identity_number(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`id(value)`: usable as a key, and read anew by replacement code."""
    if len(args) != 1 or kwargs:
        tx.raise_(TypeError, f"id() takes exactly one argument ({len(args)} given)")
    return IdentityNumberVariable(args[0])


@handles(weakref.ref)
def make_weak_reference(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`weakref.ref(value)`, without a callback."""
    if len(args) != 1 or kwargs:
        tx.graph_break(gb.UNKNOWN_CALL, "weakref.ref with a callback")
    return NewWeakReferenceVariable(args[0])


@handles(copy.deepcopy)
def deep_copy(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`copy.deepcopy(value)`, by a Python stand-in for containers and plain objects."""
    return tx.call(tx.wrap(deepcopy), args, kwargs)


@handles(new_like)
def make_like(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """An object of the class of another, with nothing in it; only where nothing but `__dict__` makes up the object."""
    value = args[0]
    cls = value.python_type()
    plain = type(value) is ObjectVariable and value.storage is None and not has_own_copying(cls)
    if not plain:
        tx.graph_break(gb.UNKNOWN_CALL, f"copy.deepcopy of a {cls.__name__}")
    return ObjectVariable(cls)


@handles(torch.autograd.profiler.record_function)
def make_record_function(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """Profiler marks around captured code are left out: they mark operations that no longer run one by one."""
    return tx.call(tx.wrap(contextlib.nullcontext), [])


@handles(inspect.signature)
def signature(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`inspect.signature(fn)` of an outside function or method, read at capture: functions are held to their code."""
    target = args[0] if len(args) == 1 and not kwargs else None
    if isinstance(target, BoundMethodVariable):
        function = target.function.realize()
        if isinstance(function, UserFunctionVariable):
            found = inspect.signature(types.MethodType(function.fn, object()))
            return tx.wrap(found, tx.capture.roots.constant(found))
    if isinstance(target, UserFunctionVariable):
        found = inspect.signature(target.fn)
        return tx.wrap(found, tx.capture.roots.constant(found))
    tx.graph_break(gb.DYNAMIC_CODE, "inspect.signature of something other than a function")
