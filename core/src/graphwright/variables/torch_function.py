"""Functions of torch that go into the graph as they are."""

from __future__ import annotations

import functools
import types
from typing import Any

import torch
import torch.functional
import torch.nn.functional

import graphwright.graph_breaks as gb
from graphwright.torch_compat import (
    GRAPH_BUILTINS,
    TENSOR_BASES,
    CustomOpDef,
    HigherOrderOperator,
    OpOverload,
    OpOverloadPacket,
    is_own_tensor_function,
    overload_of,
)
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker
from graphwright.variables.function import UserFunctionVariable
from graphwright.variables.graph_argument import check_generator, is_graph_argument
from graphwright.variables.tensor import TensorVariable
from graphwright.variables.tensor_subclass import SubclassTensorVariable

_OPERATORS = (OpOverload, OpOverloadPacket, CustomOpDef, HigherOrderOperator)
_FUNCTION_MODULES = (torch.nn.functional, torch.functional)


@functools.cache
def public_names() -> dict[Any, str]:
    """The names under which the Python functions of torch's functional modules are found."""
    return {
        value: name
        for module in _FUNCTION_MODULES
        for name, value in vars(module).items()
        if isinstance(value, types.FunctionType) and value.__module__ == module.__name__ and not name.startswith("_")
    }


def is_graph_function(fn: Any) -> bool:
    """Whether calls of a function are nodes of the graph, and not looked into."""
    if isinstance(fn, types.BuiltinFunctionType):
        return fn in GRAPH_BUILTINS
    if isinstance(fn, types.FunctionType):
        return fn in public_names() or is_own_tensor_function(fn)
    if isinstance(fn, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return fn.__objclass__ in TENSOR_BASES
    return isinstance(fn, _OPERATORS)


class TorchFunctionVariable(VariableTracker):
    """A function of torch, an operator, or an unbound method of tensors."""

    def __init__(self, fn: Any, source: Any = None) -> None:
        self.fn = fn
        self.source = source

    def python_type(self) -> type:
        return type(self.fn)

    def is_python_constant(self) -> bool:
        return True

    def as_python_constant(self) -> Any:
        return self.fn

    def truth(self, tx: Tx) -> bool:
        return True

    def hash_key(self, tx: Tx) -> Any:
        return self.fn

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        try:
            return tx.wrap(getattr(self.fn, name))
        except AttributeError as error:
            tx.raise_(AttributeError, *error.args)

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        fn = self.fn
        values = [a.realize() for a in args]
        kwargs = {k: v.realize() for k, v in kwargs.items()}
        if isinstance(fn, HigherOrderOperator):
            tx.graph_break(gb.HIGHER_ORDER, f"operator {fn.name()}")
        if self._is_method():
            return self._call_unbound(tx, values, kwargs)
        if all(is_graph_argument(a) for a in (*values, *kwargs.values())):
            target = overload_of(fn) if isinstance(fn, CustomOpDef) else fn
            return tx.capture.output.call_op(tx, "call_function", target, values, kwargs)
        check_generator(tx, self.name(), kwargs)
        check_no_override(tx, self.name(), [*values, *kwargs.values()])
        if isinstance(fn, types.FunctionType):
            return tx.inline(UserFunctionVariable(fn), args, kwargs)
        tx.graph_break(gb.UNSUPPORTED_TORCH, f"{self.name()} on {', '.join(a.type_name() for a in values)}")

    def _is_method(self) -> bool:
        if isinstance(self.fn, types.FunctionType):
            return is_own_tensor_function(self.fn)
        return isinstance(self.fn, (types.MethodDescriptorType, types.WrapperDescriptorType))

    def _call_unbound(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        name = self.fn.__name__
        if not args:
            tx.raise_(TypeError, f"unbound method TensorBase.{name}() needs an argument")
        if not isinstance(args[0], (TensorVariable, SubclassTensorVariable)):
            check_no_override(tx, self.name(), args)
            tx.graph_break(gb.TORCH_OP_FAILED, f"Tensor.{name} of a {args[0].type_name()}")
        return args[0].call_method(tx, name, args[1:], kwargs)

    def name(self) -> str:
        """A name for messages."""
        return public_names().get(self.fn) or getattr(self.fn, "__name__", None) or str(self.fn)

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(self.fn)

    def __repr__(self) -> str:
        return f"<torch function {self.name()}>"


def check_no_override(tx: Tx, what: str, args: Args) -> None:
    """Break where an argument's class says itself what torch functions do with it."""
    for arg in args:
        kind = arg.realize().python_type()
        if hasattr(kind, "__torch_function__") and kind not in (torch.Tensor, torch.nn.Parameter):
            tx.graph_break(gb.TENSOR_SUBCLASS, f"{what} on a {kind.__qualname__}, which has its own __torch_function__")
