"""Methods of tensors that are not simply nodes of the graph."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import graphwright.graph_breaks as gb
from graphwright.graph_breaks import GraphBreakKind
from graphwright.torch_compat import instance_attributes
from graphwright.variables.base import Args, Kwargs, Tx, VariableTracker
from graphwright.variables.graph_argument import is_graph_argument

if TYPE_CHECKING:
    from graphwright.variables.tensor import TensorVariable

Rule = Callable[[Tx, "TensorVariable", str, Args, Kwargs], VariableTracker]
METHOD_RULES: dict[str, Rule] = {}
"""Rules by method name; methods without one become nodes."""

C_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)


def class_method(cls: type, name: str) -> Any:
    """The raw attribute that a tensor class defines under a name, or None."""
    for owner in cls.__mro__:
        if name in owner.__dict__:
            return owner.__dict__[name]
    return None


def is_torch_function(raw: Any) -> bool:
    """Whether a function found on a tensor class is torch's own, and not one that a program put there."""
    if isinstance(raw, types.FunctionType):
        return (raw.__module__ or "").partition(".")[0] == "torch"
    return isinstance(raw, C_METHODS)


def is_torch_method(tensor: TensorVariable, name: str) -> bool:
    """Whether `tensor.name(...)` calls a method of torch."""
    if name in tensor.attributes or (tensor.real is not None and name in instance_attributes(tensor.real)):
        return False
    return is_torch_function(class_method(tensor.python_type(), name))


def tensor_value(tx: Tx, tensor: TensorVariable, convert: Callable[[Any], Any], kind: GraphBreakKind) -> Any:
    """What `convert` gives for a tensor whose value the graph knows; graph break for any other."""
    return tx.capture.output.value_of(tx, tensor, convert, kind)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of methods."""

    def enter(function: Rule) -> Rule:
        METHOD_RULES.update(dict.fromkeys(names, function))
        return function

    return enter


# ---------------------------------------------------------------- values

_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "__bool__": bool,
    "__int__": int,
    "__float__": float,
    "__complex__": complex,
    "__index__": lambda tensor: tensor.__index__(),
    "item": lambda tensor: tensor.item(),
    "tolist": lambda tensor: tensor.tolist(),
}


@rule(*_CONVERSIONS)
def convert(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """The value as a Python number."""
    if tx.capture.output.shapes.captures_values and name != "tolist" and name != "__complex__":
        number = tx.capture.output.call_op(tx, "call_method", "item", [tensor], {}).realize()
        if name == "__bool__":
            return tx.wrap(number.truth(tx))
        wanted = {"__int__": int, "__float__": float, "__index__": operator.index}.get(name)
        return number if wanted is None else tx.call(tx.wrap(wanted), [number])
    kind = gb.DATA_DEPENDENT_BRANCH if name == "__bool__" else gb.DATA_DEPENDENT_VALUE
    return tx.wrap(tensor_value(tx, tensor, _CONVERSIONS[name], kind))


@rule("numpy", "__array__", "__dlpack__", "__repr__", "__str__", "__format__", "__reversed_array__")
def leaves_torch(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """The values as something that is no tensor."""
    tx.graph_break(gb.DATA_DEPENDENT_VALUE, f"Tensor.{name}")


@rule("__contains__")
def contains(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`element in tensor`."""
    equal = tx.capture.output.call_op(tx, "call_method", "__contains__", [tensor, *args], kwargs)
    return tx.wrap(equal.truth(tx))


# fmt: off
_BINARY = (
    "eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and",
    "or", "xor", "lshift", "rshift", "radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rpow", "rmatmul",
    "rand", "ror", "rxor", "rlshift", "rrshift", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow",
    "iand", "ior", "ixor", "ilshift", "irshift",
)
# fmt: on


@rule(*(f"__{stem}__" for stem in _BINARY))
def binary(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """A special method of an operator: it leaves to the other operand what cannot stand in a graph."""
    if not all(is_graph_argument(a.realize()) for a in args):
        return tx.wrap(NotImplemented)
    return tx.capture.output.call_op(tx, "call_method", name, [tensor, *args], kwargs)


# ---------------------------------------------------------------- metadata


@rule("stride")
def stride(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`tensor.stride()`: fakes know it, but for results without elements, where eager keeps the order of memory."""
    if tensor.source is None and any(type(size) is int and size == 0 for size in tensor.fake.shape):
        tx.graph_break(gb.DATA_DEPENDENT_VALUE, "the strides of a result without elements")
    return tx.capture.output.call_op(tx, "call_method", name, [tensor, *args], kwargs)


# ---------------------------------------------------------------- object protocol


@rule("__len__")
def length(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`len(tensor)`."""
    return tensor.length(tx)


@rule("__iter__")
def iterate(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`iter(tensor)`."""
    return tensor.iterate(tx)


@rule("__getitem__")
def getitem(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`tensor[index]`."""
    return tensor.getitem(tx, args[0])


@rule("__setitem__")
def setitem(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`tensor[index] = value`."""
    tensor.setitem(tx, args[0], args[1])
    return tx.wrap(None)


@rule("__getattribute__", "__setattr__", "__delattr__")
def attribute(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Attribute access by the special methods themselves."""
    wanted = args[0].realize().as_python_constant()
    if name == "__getattribute__":
        return tensor.getattr(tx, wanted)
    if name == "__setattr__":
        tensor.setattr(tx, wanted, args[1])
    else:
        tensor.delattr(tx, wanted)
    return tx.wrap(None)


@rule("__hash__", "__deepcopy__", "__copy__", "__reduce__", "__reduce_ex__", "__setstate__", "__dir__", "__sizeof__")
def as_object(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """What treats a tensor as a Python object to be copied, numbered or looked into."""
    tx.graph_break(gb.UNSUPPORTED_TORCH, f"Tensor.{name}")


# ---------------------------------------------------------------- autograd


@rule(
    "backward",
    "register_hook",
    "register_post_accumulate_grad_hook",
    "retain_grad",
    "_backward_hooks",
    "__torch_function__",
)
def autograd(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """What runs or changes the autograd graph."""
    tx.graph_break(gb.BACKWARD_INSIDE, f"Tensor.{name}")


@rule("requires_grad_")
def requires_grad(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """A change of `requires_grad`: compilers of graphs know the leaves from the inputs alone."""
    value = next((v.realize() for v in (*args, *kwargs.values())), tx.wrap(True))
    if not value.is_python_constant() or not isinstance(value.as_python_constant(), bool):
        tx.graph_break(gb.TORCH_OP_FAILED, "requires_grad_ of something that is no bool")
    if tensor.fake.requires_grad is value.as_python_constant():
        return tensor
    if tensor.source is not None:
        tx.graph_break(gb.INPUT_METADATA_MUTATION, f"requires_grad of input {tensor.source} changes")
    tx.graph_break(gb.BACKWARD_INSIDE, "requires_grad of a tensor made inside changes")


# ---------------------------------------------------------------- memory and place


@rule(
    "data_ptr",
    "untyped_storage",
    "storage",
    "_typed_storage",
    "storage_type",
    "storage_offset",
    "share_memory_",
    "is_shared",
    "is_pinned",
    "apply_",
    "map_",
    "map2_",
    "_version",
    "is_set_to",
    "module_load",
    "record_stream",
    "refine_names",
    "align_to",
    "align_as",
    "rename",
    "rename_",
    "names",
)
def memory(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """What depends on where the values lie, or runs Python code for each of them."""
    tx.graph_break(gb.UNSUPPORTED_TORCH, f"Tensor.{name}")


@rule("is_inference", "_is_view", "_is_zerotensor")
def unguarded_fact(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Facts that guards on inputs do not hold."""
    if tensor.source is not None:
        tx.graph_break(gb.UNSUPPORTED_TORCH, f"Tensor.{name} of an input")
    return tx.capture.output.call_op(tx, "call_method", name, [tensor, *args], kwargs)
