"""`getattr` and its kin, identity and hash, and what can only be left to the interpreter."""

from __future__ import annotations

import builtins
from typing import Any, NoReturn

import graphwright.graph_breaks as gb
from graphwright.builtin_calls.containers import check
from graphwright.builtin_calls.registry import handles
from graphwright.builtin_calls.special_methods import find_special
from graphwright.exc import ObservedException
from graphwright.graph_breaks import GraphBreakKind
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.constant import constant_call
from graphwright.variables.method_table import run_model, type_example

VTs = list[VariableTracker]


def _name(tx: Tx, fn: Any, args: VTs) -> str:
    """The attribute name among the arguments, or the function's own TypeError."""
    vt = args[1]
    if vt.is_python_constant() and isinstance(vt.as_python_constant(), str):
        name: str = vt.as_python_constant()
        return name
    if issubclass(vt.python_type(), str):
        tx.graph_break(gb.UNKNOWN_ATTRIBUTE, "an attribute whose name is not known while capturing")
    run_model(tx, fn, object(), type_example(vt.python_type()), *[None] * (len(args) - 2))
    raise AssertionError(fn)


def try_getattr(tx: Tx, owner: VariableTracker, name: str) -> VariableTracker | None:
    """`owner.name`, or None where that raises AttributeError in the traced program."""
    try:
        return owner.getattr(tx, name)
    except ObservedException as signal:
        if not issubclass(signal.value.python_type(), AttributeError):
            raise
        return None


@handles(getattr)
def get_attribute(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`getattr(owner, name, default)`."""
    check(tx, getattr, args, kwargs, 2, 3)
    name = _name(tx, getattr, args)
    if len(args) == 2:
        return args[0].getattr(tx, name)
    return try_getattr(tx, args[0], name) or args[2]


@handles(hasattr)
def has_attribute(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`hasattr(owner, name)`."""
    check(tx, hasattr, args, kwargs, 2, 2)
    return tx.wrap(try_getattr(tx, args[0], _name(tx, hasattr, args)) is not None)


@handles(setattr)
def set_attribute(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`setattr(owner, name, value)`."""
    check(tx, setattr, args, kwargs, 3, 3)
    args[0].setattr(tx, _name(tx, setattr, args), args[2])
    return tx.wrap(None)


@handles(delattr)
def delete_attribute(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`delattr(owner, name)`."""
    check(tx, delattr, args, kwargs, 2, 2)
    args[0].delattr(tx, _name(tx, delattr, args))
    return tx.wrap(None)


@handles(vars)
def namespace(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`vars(owner)`; without an argument it sees the frame."""
    if not args:
        tx.graph_break(gb.DYNAMIC_CODE, "vars()")
    check(tx, vars, args, kwargs, 1, 1)
    found = try_getattr(tx, args[0], "__dict__")
    if found is None:
        tx.raise_(TypeError, "vars() argument must have __dict__ attribute")
    return found


@handles(hash)
def hash_of(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`hash(value)`; a hash made from an object's address stops capture."""
    check(tx, hash, args, kwargs, 1, 1)
    value = args[0]
    kind = value.python_type()
    if value.is_python_constant() and not issubclass(kind, type):
        return constant_call(tx, hash, [value.as_python_constant()])
    found = find_special(tx, kind, "__hash__")
    if found is None or found[0] is None:
        tx.raise_(TypeError, f"unhashable type: '{value.type_name()}'")
    if found[1] is not object and callable(found[0]) and hasattr(found[0], "__code__"):
        result = value.call_method(tx, "__hash__", [], {}).realize()
        if result.is_python_constant():
            return constant_call(tx, hash, [_Hashed(result.as_python_constant())])
    value.hash_key(tx)
    tx.graph_break(gb.UNKNOWN_COMPARISON, f"hash of a {value.type_name()}")


class _Hashed:
    """Gives `hash` what a `__hash__` method returned, to reduce or to refuse."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> Any:
        return self.value


def _register_refused(kind: GraphBreakKind, *functions: Any) -> None:
    for fn in functions:

        @handles(fn)
        def refuse(tx: Tx, args: VTs, kwargs: Kwargs, fn: Any = fn) -> NoReturn:
            tx.graph_break(kind, f"call of {fn.__name__}()")


_register_refused(gb.PRINTING, print)
_register_refused(gb.UNKNOWN_COMPARISON, id)
_register_refused(gb.DYNAMIC_CODE, eval, exec, compile, globals, locals, dir, breakpoint, builtins.__import__)
_register_refused(gb.UNKNOWN_CALL, open, input, memoryview, bytearray)
