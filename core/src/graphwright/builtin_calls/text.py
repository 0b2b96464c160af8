"""Text of values: `str`, `repr`, `ascii`, `format`, and `str.format`."""

from __future__ import annotations

import dataclasses
import reprlib
import types
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.builtin_calls.containers import check
from graphwright.builtin_calls.registry import handles
from graphwright.builtin_calls.special_methods import find_special, is_tensor
from graphwright.trust import is_trusted_class
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.constant import ConstantVariable, constant_call, format_with
from graphwright.variables.container import ContainerVariable
from graphwright.variables.method_table import run_model
from graphwright.variables.standin import formattable

VTs = list[VariableTracker]


def repr_of(tx: Tx, value: VariableTracker) -> VariableTracker:
    """`repr(value)`."""
    if isinstance(value, ConstantVariable) or _is_plain_class(tx, value):
        return constant_call(tx, repr, [value.as_python_constant()])
    guarded = find_special(tx, value.python_type(), "__repr__")
    if guarded is not None and getattr(guarded[0], "__code__", None) in _RECURSION_GUARDS:
        return _repr_once(tx, value, guarded[0].__wrapped__)
    return _by_method(tx, value, "__repr__")


_RECURSION_GUARDS = (
    reprlib.recursive_repr()(repr).__code__,
    dataclasses.make_dataclass("_Example", []).__repr__.__code__,
)
"""Code of the wrappers that keep a `__repr__` from running into itself, by object address and thread."""


def _repr_once(tx: Tx, value: VariableTracker, fn: types.FunctionType) -> VariableTracker:
    """Call a `__repr__` from under its recursion guard; here the variable itself tells that it is being shown."""
    if value.__dict__.get("being_shown", False):
        return ConstantVariable("...")
    value.__dict__["being_shown"] = True
    try:
        return tx.call(tx.wrap(fn), [value]).realize()
    finally:
        value.__dict__["being_shown"] = False


def str_of(tx: Tx, value: VariableTracker) -> VariableTracker:
    """`str(value)`."""
    if isinstance(value, ConstantVariable):
        return constant_call(tx, str, [value.value])
    found = find_special(tx, value.python_type(), "__str__")
    if found is None or found[1] is object:
        return repr_of(tx, value)
    return _by_method(tx, value, "__str__")


def _is_plain_class(tx: Tx, value: VariableTracker) -> bool:
    """Whether a value is a class, or a type expression, whose text says its name and nothing else."""
    if not value.is_python_constant() or isinstance(value, ContainerVariable):
        return False
    known = value.as_python_constant()
    if isinstance(known, type):
        found = find_special(tx, type(known), "__repr__")
        return found is not None and is_trusted_class(found[1])
    return isinstance(known, (types.UnionType, types.GenericAlias)) or type(known).__module__ == "typing"


def _by_method(tx: Tx, value: VariableTracker, name: str) -> VariableTracker:
    kind = value.python_type()
    if is_tensor(value):
        tx.graph_break(gb.DATA_DEPENDENT_VALUE, "text of a tensor")
    found = find_special(tx, kind, name)
    shows_address = found is None or found[1] is object or issubclass(kind, _WITH_ADDRESS)
    if shows_address and not isinstance(value, ContainerVariable):
        tx.graph_break(gb.UNSUPPORTED_VALUE, f"text of a {value.type_name()}, which shows its address")
    result = value.call_method(tx, name, [], {}).realize()
    if not issubclass(result.python_type(), str):
        tx.raise_(TypeError, f"{name} returned non-string (type {result.type_name()})")
    return result


_WITH_ADDRESS = (
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.GeneratorType,
)


@handles(repr)
def make_repr(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`repr(value)`."""
    check(tx, repr, args, kwargs, 1, 1)
    return repr_of(tx, args[0])


@handles(ascii)
def make_ascii(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`ascii(value)`."""
    check(tx, ascii, args, kwargs, 1, 1)
    shown = repr_of(tx, args[0])
    return constant_call(tx, _escaped, [_known_text(tx, shown)])


def _escaped(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode("ascii")


def _known_text(tx: Tx, value: VariableTracker) -> str:
    if not value.is_python_constant():
        tx.graph_break(gb.DATA_DEPENDENT_VALUE, "text that is not known while capturing")
    text: str = value.as_python_constant()
    return text


@handles(str)
def make_str(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`str(value)` and `str(bytes, encoding, errors)`."""
    if len(args) == 1 and not kwargs:
        return str_of(tx, args[0])
    if "object" in kwargs and not args and len(kwargs) == 1:
        return str_of(tx, kwargs["object"])
    values, named = list(args), dict(kwargs)
    if all(v.is_python_constant() for v in (*values, *named.values())):
        arguments = [v.as_python_constant() for v in values]
        return constant_call(tx, str, arguments, {k: v.as_python_constant() for k, v in named.items()})
    tx.graph_break(gb.UNKNOWN_CALL, "str() of bytes that are not known while capturing")


@handles(format)
def make_format(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`format(value, spec)`."""
    check(tx, format, args, kwargs, 1, 2)
    value = args[0]
    spec = args[1] if len(args) > 1 else ConstantVariable("")
    if not issubclass(spec.python_type(), str):
        run_model(tx, format, None, spec.as_python_constant() if spec.is_python_constant() else object())
    text = _known_text(tx, spec)
    if isinstance(value, ConstantVariable):
        return constant_call(tx, format, [value.value, text])
    found = find_special(tx, value.python_type(), "__format__")
    if is_tensor(value):
        tx.graph_break(gb.DATA_DEPENDENT_VALUE, "text of a tensor")
    if found is not None and found[1] is not object:
        result = value.call_method(tx, "__format__", [spec], {}).realize()
        if not issubclass(result.python_type(), str):
            tx.raise_(TypeError, f"__format__ must return a str, not {result.type_name()}")
        return result
    if text:
        tx.raise_(TypeError, f"unsupported format string passed to {value.type_name()}.__format__")
    return str_of(tx, value)


@handles(format_with)
def str_format(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`template.format(...)`: Python's own algorithm, on stand-ins for what is no constant."""
    template, *values = args
    named: dict[str, Any] = {k: formattable(tx, v) for k, v in kwargs.items()}
    return tx.wrap(run_model(tx, _known_text(tx, template).format, *(formattable(tx, v) for v in values), **named))
