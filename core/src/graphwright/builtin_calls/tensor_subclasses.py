"""`torch.Tensor.__torch_function__`: what a tensor subclass does unless it says otherwise."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.overrides import get_default_nowrap_functions

import graphwright.graph_breaks as gb
from graphwright.builtin_calls.registry import handles
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.builtin import BuiltinVariable
from graphwright.variables.dict import DictVariable
from graphwright.variables.sequence import ListVariable, TupleVariable
from graphwright.variables.tensor import TensorVariable
from graphwright.variables.tensor_subclass import SubclassTensorVariable, as_subclass, in_class

VTs = list[VariableTracker]
_DEFAULT = torch.Tensor.__dict__["__torch_function__"].__func__


@handles(_DEFAULT)
def default_torch_function(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """Does the operation on plain tensors, and gives its results the class."""
    names = ("cls", "func", "types", "args", "kwargs")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    cls: Any = given["cls"].as_python_constant()
    if not all(issubclass(cls, t.realize().as_python_constant()) for t in given["types"].unpack(tx)):
        return tx.wrap(NotImplemented)
    wrapped = _Wrapped(tx)
    positional = [wrapped.plain(a) for a in given["args"].unpack(tx)] if "args" in given else []
    named = given.get("kwargs")
    keywords = named if isinstance(named, DictVariable) else DictVariable.new()
    plain = {e.key.realize().as_python_constant(): wrapped.plain(e.value) for e in keywords.all_entries(tx)}
    function = given["func"]
    result = _call_plain(tx, function, positional, plain).realize()
    if function.is_python_constant() and function.as_python_constant() in get_default_nowrap_functions():
        return result
    return wrapped.converted(result, cls)


def _call_plain(tx: Tx, function: VariableTracker, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """Call an operation; that of an attribute is `Tensor.name.__get__`."""
    if isinstance(function, BuiltinVariable) and type(function.fn) is types.MethodWrapperType and args:
        descriptor: Any = function.fn.__self__
        if function.fn.__name__ != "__get__" or not hasattr(descriptor, "__name__"):
            tx.graph_break(gb.TENSOR_SUBCLASS, f"{function.name()} of a tensor subclass")
        return args[0].realize().getattr(tx, descriptor.__name__)
    return tx.call(function, args, kwargs)


class _Wrapped:
    """The subclass tensors among the arguments of an operation, by the plain ones."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._of: dict[VariableTracker, VariableTracker] = {}
        self._met: set[VariableTracker] = set()

    def plain(self, value: VariableTracker) -> VariableTracker:
        """An argument with plain tensors in place of those of subclasses."""
        value = value.realize()
        if isinstance(value, SubclassTensorVariable):
            self._of[value.base] = value
            return value.base
        if isinstance(value, TensorVariable):
            self._met.add(value)
        if isinstance(value, TupleVariable) and value.cls is tuple:
            return TupleVariable([self.plain(item) for item in value.items])
        if isinstance(value, ListVariable) and value.python_type() is list:
            return ListVariable([self.plain(item) for item in value.items])
        return value

    def converted(self, result: VariableTracker, cls: type) -> VariableTracker:
        """A result in which all tensors have the class, as the default of `__torch_function__` has it."""
        result = result.realize()
        tx = self._tx
        if isinstance(result, TensorVariable):
            if result in self._of:
                return self._of[result]
            if result in self._met:
                return as_subclass(tx, result, "as_subclass", [tx.wrap(cls)], {})
            return in_class(tx, result, cls)
        if isinstance(result, TupleVariable):
            if result.cls is torch.Size:
                return result
            return TupleVariable([self.converted(item, cls) for item in result.items], cls=result.cls)
        if isinstance(result, ListVariable):
            return ListVariable([self.converted(item, cls) for item in result.items])
        return result
