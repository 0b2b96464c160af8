"""What is known of torch operations by their names: which write, which change metadata, which may be dropped."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import fx

from graphwright.torch_compat import OPERATOR_MODULES, HigherOrderOperator, OpOverload, OpOverloadPacket, is_mutable

_RESIZING = frozenset({"resize_", "resize_as_", "set_", "_resize_output_", "resize", "resize_as", "swap_tensors"})
_METADATA = frozenset(
    {
        "t_",
        "transpose_",
        "swapaxes_",
        "swapdims_",
        "squeeze_",
        "unsqueeze_",
        "as_strided_",
        "requires_grad_",
        "detach_",
        "rename_",
        "_coalesced_",
        "sparse_resize_",
    }
)
_INPLACE_OPERATORS = frozenset(
    {
        operator.iadd,
        operator.isub,
        operator.imul,
        operator.itruediv,
        operator.ifloordiv,
        operator.imod,
        operator.ipow,
        operator.imatmul,
        operator.iand,
        operator.ior,
        operator.ixor,
        operator.ilshift,
        operator.irshift,
        operator.setitem,
    }
)
_INPLACE_METHODS = frozenset(f"__{f.__name__}__" for f in _INPLACE_OPERATORS)
_EFFECTFUL = frozenset({"_assert_async", "_assert", "_functional_assert_async"})
_PURE_OPERATORS = frozenset(
    {
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.neg,
        operator.pos,
        operator.abs,
        operator.eq,
        operator.ne,
        operator.lt,
        operator.le,
        operator.gt,
        operator.ge,
        operator.invert,
        builtins.getattr,
    }
)
# fmt: off
_PURE_NAMES = frozenset(
    {
        "view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "expand_as", "flatten",
        "contiguous", "clone", "detach", "to", "float", "double", "half", "bfloat16", "int", "long", "bool", "add",
        "sub", "mul", "div", "neg", "exp", "sin", "cos", "tanh", "sigmoid", "relu", "gelu", "abs", "sqrt", "rsqrt",
        "ones", "zeros", "arange", "ones_like", "zeros_like", "full", "full_like", "unbind", "chunk", "split",
        "narrow", "view_as", "reshape_as", "type_as", "sum", "mean", "where", "cat", "stack", "type", "new_zeros",
        "new_ones", "new_full", "swapaxes", "movedim",
    }
)
# fmt: on


def op_name(target: Any) -> str:
    """The bare name of an operation: `add_` for ``torch.ops.aten.add_.Tensor``, `linear` for ``F.linear``."""
    if isinstance(target, str):
        return target
    if isinstance(target, OpOverload):
        return str(target.overloadpacket.__name__)
    name = getattr(target, "__name__", None)
    return name if isinstance(name, str) else type(target).__name__


# fmt: off
_FAIL_BY_VALUES: Final = frozenset(
    {
        "index_select", "gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "index_add",
        "index_add_", "index_copy", "index_copy_", "index_fill", "index_fill_", "index_put", "index_put_",
        "take", "take_along_dim", "put_", "embedding", "embedding_bag", "one_hot", "bincount",
        "cross_entropy", "nll_loss", "multi_margin_loss", "binary_cross_entropy", "multinomial", "bernoulli",
        "repeat_interleave", "cholesky", "inv", "inverse", "solve", "eigh", "eig", "svd", "lstsq", "_assert",
        "_assert_async",
    }
)
# fmt: on
_INDEXING: Final = ("getitem", "setitem", "__getitem__", "__setitem__")


def may_fail_by_values(name: str, arguments: Sequence[Any]) -> bool:
    """Whether an operation that works on fake tensors may still raise, for what its arguments hold."""
    if name not in _INDEXING:
        return name in _FAIL_BY_VALUES
    indices = arguments[1] if isinstance(arguments[1], (tuple, list)) else (arguments[1],)
    return any(isinstance(index, fx.Node) for index in indices)


# fmt: off
_REFUSE_BOOLS: Final = frozenset(
    {
        "sub", "isub", "rsub", "subtract", "mod", "imod", "remainder", "fmod", "pow", "ipow", "matmul", "imatmul", "mm",
        "bmm", "mv", "dot", "abs", "clamp", "lshift", "ilshift", "rshift", "irshift",
    }
)
_REFUSE_FLOATS: Final = frozenset(
    {"and", "or", "xor", "iand", "ior", "ixor", "bitwise_and", "bitwise_or", "bitwise_xor", "lshift", "rshift"}
)
_DIVIDE_INTEGERS: Final = frozenset({"floordiv", "ifloordiv", "mod", "imod", "remainder", "fmod", "floor_divide"})
# fmt: on


def may_fail_by_kinds(name: str, fakes: Sequence[Any]) -> bool:
    """Whether kernels may refuse numbers of these kinds, whatever they are, though fakes do not."""
    bare = name.strip("_")
    kinds = [f.dtype if isinstance(f, torch.Tensor) else type(f) for f in fakes]
    floats = [kind is float or (isinstance(kind, torch.dtype) and kind.is_floating_point) for kind in kinds]
    bools = [kind in (bool, torch.bool) for kind in kinds]
    if any(bools) and bare in _REFUSE_BOOLS:
        return True
    in_place_product = bare in ("imul", "mul") and name != "mul"
    if any(floats):
        return bare in _REFUSE_FLOATS or (in_place_product and not floats[0])
    return in_place_product and bools[:1] == [True]


def may_divide_by_zero(name: str, fakes: Sequence[Any]) -> bool:
    """Whether an operation divides integers, whose kernels refuse zero."""
    kinds = [f.dtype if isinstance(f, torch.Tensor) else type(f) for f in fakes]
    floats = (kind is float or (isinstance(kind, torch.dtype) and kind.is_floating_point) for kind in kinds)
    return name.strip("_") in _DIVIDE_INTEGERS and not any(floats)


def refuses_empty(name: str, fakes: Sequence[Any]) -> bool:
    """Whether kernels refuse the first tensor for having no elements, and fakes do not."""
    first = fakes[0] if fakes else None
    if name not in ("max", "min", "median", "nanmedian", "mode") or not isinstance(first, torch.Tensor):
        return False
    return any(type(size) is int and size == 0 for size in first.shape)


# fmt: off
_OF_ONE_DTYPE: Final = frozenset(
    {
        "linear", "matmul", "imatmul", "rmatmul", "mm", "mv", "addmm", "addmv", "multi_dot", "chain_matmul",
        "index_copy", "put", "heaviside", "grid_sample",
    }
)
# fmt: on


def refuses_mixed(name: str, fakes: Sequence[Any]) -> bool:
    """Whether kernels refuse tensors of different floating dtypes, and fakes do not; autocast makes them one."""
    if name.strip("_") not in _OF_ONE_DTYPE:
        return False
    tensors = [fake for fake in fakes if isinstance(fake, torch.Tensor)]
    dtypes = {tensor.dtype for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()}
    return len(dtypes) > 1 and not any(torch.is_autocast_enabled(tensor.device.type) for tensor in tensors)


def makes_quantized(name: str) -> bool:
    """Whether an operation gives quantized tensors, which fakes take for plain ones."""
    return name.startswith("quantize_per_") or "affine_quantized" in name


def resizes(name: str) -> bool:
    """Whether an operation gives a tensor another storage or another number of elements."""
    return name in _RESIZING


def changes_metadata(name: str) -> bool:
    """Whether an operation changes its first argument's sizes, strides or place in autograd."""
    return name in _METADATA


def writes(name: str, target: Any, kwargs: dict[str, Any]) -> bool:
    """Whether an operation changes values or metadata of its arguments."""
    if target in _INPLACE_OPERATORS or kwargs.get("out") is not None or kwargs.get("inplace") is True:
        return True
    if isinstance(target, OpOverload):
        return is_mutable(target)
    return _writes_by_name(name)


def is_effectful(name: str, target: Any) -> bool:
    """Whether an operation that writes nothing has to stay in the graph all the same."""
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        # What a custom operator does besides computing its result is not known.
        return not str(target).startswith(("aten.", "prims."))
    return name in _EFFECTFUL


def is_repeatable(node: fx.Node) -> bool:
    """Whether calling a node's target again does nothing more, apart from writing to tensors and drawing numbers.

    It is not known of custom operators, of functions that the user allowed in graphs, and of what runs subgraphs.
    """
    target: Any = node.target
    if node.op != "call_function":
        return node.op != "call_module"
    if isinstance(target, (OpOverload, OpOverloadPacket, HigherOrderOperator)):
        return str(target).startswith(("aten.", "prims."))
    module = getattr(target, "__module__", None) or ""
    return module in OPERATOR_MODULES or module.startswith("torch.")


def _writes_by_name(name: str) -> bool:
    return name in _INPLACE_METHODS or (name.endswith("_") and not name.endswith("__") and not name.startswith("__"))


def is_removable(name: str, target: Any, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether an operation that was seen to work on fakes can neither fail nor be noticed when run."""
    if name in ("div", "truediv") and not all(t.dtype.is_floating_point for t in tensors):
        return False
    if isinstance(target, str) or getattr(target, "__module__", None) in OPERATOR_MODULES:
        return target in _PURE_OPERATORS or name in _PURE_NAMES
    return target in _PURE_OPERATORS


def written_by_kernel(name: str, target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Tensors that an operation writes to without counting it as an in-place change: running statistics."""
    if name not in ("batch_norm", "instance_norm", "native_batch_norm"):
        return []
    of_functional = getattr(target, "__module__", "") == "torch.nn.functional"
    first = 1 if of_functional else 3  # the others take weight and bias before the statistics
    flag = "training" if "batch" in name else "use_input_stats"
    default = flag == "use_input_stats" or not of_functional
    updates = args[5] if len(args) > 5 else kwargs.get(flag, default)
    if updates is False:
        return []
    running = [*args[first : first + 2], kwargs.get("running_mean"), kwargs.get("running_var")]
    return [tensor for tensor in running if isinstance(tensor, torch.Tensor)]
