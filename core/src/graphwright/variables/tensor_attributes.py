"""Attributes of tensors: metadata, views, autograd state, and what programs put on the objects."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import torch

import graphwright.graph_breaks as gb
from graphwright.torch_compat import instance_attributes
from graphwright.variables.base import Tx, VariableTracker, is_the
from graphwright.variables.function import BoundMethodVariable
from graphwright.variables.method_table import MethodVariable
from graphwright.variables.sequence import TupleVariable
from graphwright.variables.tensor_methods import class_method, is_torch_function

if TYPE_CHECKING:
    from graphwright.variables.tensor import TensorVariable

METADATA = frozenset(
    name
    for name in (
        "dtype",
        "device",
        "layout",
        "ndim",
        "requires_grad",
        "itemsize",
        "nbytes",
        "is_cuda",
        "is_cpu",
        "is_xpu",
        "is_mps",
        "is_ipu",
        "is_hpu",
        "is_mtia",
        "is_xla",
        "is_maia",
        "is_meta",
        "is_sparse",
        "is_sparse_csr",
        "is_quantized",
        "is_mkldnn",
        "is_nested",
        "is_vulkan",
        "is_ort",
    )
    if hasattr(torch.Tensor, name)
)
"""Attributes that the guards on a tensor fix."""
VIEWS = frozenset({"T", "mT", "H", "mH", "real", "imag", "data"})
"""Attributes that are tensors."""
_HOOKS = frozenset({"_backward_hooks", "_post_accumulate_grad_hooks"})


# ---------------------------------------------------------------- reading


def get_attribute(tx: Tx, tensor: TensorVariable, name: str) -> VariableTracker:
    """`tensor.name`."""
    if name in tensor.attributes:
        value = tensor.attributes[name]
        if value is not None:
            return value
        _raise_missing(tx, tensor, name)
    if name in METADATA:
        if name == "nbytes":  # its getter, in C++, knows no symbolic sizes
            return tx.wrap(tensor.fake.numel() * tensor.fake.element_size())
        return tx.wrap(getattr(tensor.fake, name))
    if name in VIEWS:
        return tx.capture.output.call_op(tx, "call_function", builtins.getattr, [tensor, tx.wrap(name)])
    special = _READERS.get(name)
    if special is not None and hasattr(torch.Tensor, name):
        return special(tx, tensor)
    return _from_class_or_instance(tx, tensor, name)


def _from_class_or_instance(tx: Tx, tensor: TensorVariable, name: str) -> VariableTracker:
    """An attribute that is looked up on the class, and before that on the object unless a property hides it."""
    raw = class_method(tensor.python_type(), name)
    if isinstance(raw, (property, types.GetSetDescriptorType)):
        tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"Tensor.{name}")
    if tensor.real is not None and tensor.source is not None:
        own = instance_attributes(tensor.real)
        if name in own:
            return tx.lazy(own[name], tensor.source.instance_dict().dict_item(name))
        if raw is None:
            tx.capture.guards.add(tensor.source.instance_dict(), "dict_lacks", name)
    if raw is None:
        _raise_missing(tx, tensor, name)
    if is_torch_function(raw):
        return MethodVariable(tensor, name)
    if isinstance(raw, types.FunctionType):
        # The program itself put the function on torch's class.
        source = tx.capture.roots.object(torch.Tensor).mro_attr(name)
        return BoundMethodVariable(tx.wrap(raw, source), tensor)
    return tx.wrap(getattr(tensor.python_type(), name))


def _raise_missing(tx: Tx, tensor: TensorVariable, name: str) -> NoReturn:
    tx.raise_(AttributeError, f"'{tensor.type_name()}' object has no attribute '{name}'")


Reader = Callable[[Tx, "TensorVariable"], VariableTracker]


def _shape(tx: Tx, tensor: TensorVariable) -> VariableTracker:
    return TupleVariable([tx.wrap(size) for size in tensor.fake.shape], cls=torch.Size)


def _guarded(tx: Tx, tensor: TensorVariable, name: str) -> None:
    """Hold an attribute of an outside tensor to its value at entry; inside, the fake follows what the trace does."""
    if tensor.source is not None:
        tx.capture.guards.add(tensor.source.attr(name), "eq", getattr(tensor.real, name))


def _is_leaf(tx: Tx, tensor: TensorVariable) -> VariableTracker:
    _guarded(tx, tensor, "is_leaf")
    return tx.wrap(tensor.fake.is_leaf)


def _retains_grad(tx: Tx, tensor: TensorVariable) -> VariableTracker:
    _guarded(tx, tensor, "retains_grad")
    return tx.wrap(tensor.fake.retains_grad if tensor.real is None else tensor.real.retains_grad)


def _grad(tx: Tx, tensor: TensorVariable) -> VariableTracker:
    if tensor.real is None or tensor.source is None:
        return tx.wrap(None)
    _guarded(tx, tensor, "is_leaf")
    _guarded(tx, tensor, "retains_grad")
    if not (tensor.real.is_leaf or tensor.real.retains_grad):
        tx.graph_break(gb.BACKWARD_INSIDE, f"gradient of {tensor.source}, which is not a leaf: torch warns")
    return tx.lazy(tensor.real.grad, tensor.source.attr("grad"))


def _grad_fn(tx: Tx, tensor: TensorVariable) -> VariableTracker:
    if tensor.fake.grad_fn is not None:
        tx.graph_break(gb.BACKWARD_INSIDE, "grad_fn of a tensor with a history")
    _guarded(tx, tensor, "is_leaf")
    return tx.wrap(None)


def _hooks(tx: Tx, tensor: TensorVariable) -> VariableTracker:
    tx.graph_break(gb.BACKWARD_INSIDE, "hooks of a tensor")


def _names(tx: Tx, tensor: TensorVariable) -> VariableTracker:
    return TupleVariable([tx.wrap(None) for _ in tensor.fake.shape])


_READERS: dict[str, Reader] = {
    "shape": _shape,
    "is_leaf": _is_leaf,
    "retains_grad": _retains_grad,
    "grad": _grad,
    "grad_fn": _grad_fn,
    "names": _names,
    "_backward_hooks": _hooks,
    "_post_accumulate_grad_hooks": _hooks,
    "__class__": lambda tx, tensor: tx.wrap(tensor.python_type()),
    "__doc__": lambda tx, tensor: tx.wrap(tensor.python_type().__doc__),
    "__dict__": lambda tx, tensor: tx.graph_break(gb.UNKNOWN_ATTRIBUTE, "Tensor.__dict__"),
}


# ---------------------------------------------------------------- writing


def set_attribute(tx: Tx, tensor: TensorVariable, name: str, value: VariableTracker) -> None:
    """`tensor.name = value`."""
    if name == "requires_grad":
        tensor.call_method(tx, "requires_grad_", [value], {})
        return
    if name == "grad":
        _check_grad(tx, tensor, value.realize())
    elif name == "data":
        tx.graph_break(gb.INPUT_METADATA_MUTATION, "assignment to Tensor.data")
    elif name in ("__class__", "__dict__") or name in _HOOKS:
        tx.graph_break(gb.MUTATION_OF_UNKNOWN, f"assignment to Tensor.{name}")
    elif isinstance(class_method(tensor.python_type(), name), (property, types.GetSetDescriptorType)):
        tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"assignment to Tensor.{name}")
    tx.capture.effects.mutate(tensor)
    tensor.attributes[name] = value


def _check_grad(tx: Tx, tensor: TensorVariable, value: VariableTracker) -> None:
    """Break where torch would refuse the gradient."""
    if is_the(value, None):
        return
    gradient = getattr(value, "fake", None)
    fake = tensor.fake
    fits = (
        isinstance(gradient, torch.Tensor)
        and gradient is not fake
        and gradient.shape == fake.shape
        and gradient.dtype == fake.dtype
        and gradient.device == fake.device
    )
    if not fits:
        tx.graph_break(gb.TORCH_OP_FAILED, "assignment to Tensor.grad of something that is no gradient of the tensor")


def delete_attribute(tx: Tx, tensor: TensorVariable, name: str) -> None:
    """`del tensor.name`."""
    raw = class_method(tensor.python_type(), name)
    if isinstance(raw, (property, types.GetSetDescriptorType)) or name.startswith("__"):
        tx.graph_break(gb.MUTATION_OF_UNKNOWN, f"deletion of Tensor.{name}")
    if name in tensor.attributes:
        outside = tensor.real is not None and name in instance_attributes(tensor.real)
        if tensor.attributes[name] is None:
            tx.raise_(AttributeError, name)
        if not outside:
            del tensor.attributes[name]
            return
    elif tensor.real is None or name not in instance_attributes(tensor.real):
        if tensor.source is not None:
            tx.capture.guards.add(tensor.source.instance_dict(), "dict_lacks", name)
        tx.raise_(AttributeError, f"'{tensor.type_name()}' object has no attribute '{name}'")
    if tensor.source is not None:
        tx.capture.guards.touch(tensor.source.instance_dict().dict_item(name))
    tx.capture.effects.mutate(tensor)
    tensor.attributes[name] = None
