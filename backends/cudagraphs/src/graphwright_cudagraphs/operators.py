"""What single operators do that a recording cannot: wait for the device, run Python, use a generator of their own."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import fx

from .torch_compat import HigherOrderOperator, OpOverload

_WAITING: Final = frozenset(
    {
        "aten::_assert_scalar",
        "aten::_fused_moving_avg_obs_fq_helper",
        "aten::_fused_moving_avg_obs_fq_helper_functional",
        "aten::_linalg_check_errors",
        "aten::_local_scalar_dense",
        "aten::is_nonzero",
        "aten::pin_memory",
        "aten::_pin_memory",
    }
)
"""Operators without a mark of torch's that copy to the host and wait for it."""
_INDEXING: Final = frozenset({"aten::index", "aten::index_put", "aten::index_put_", "aten::_unsafe_index"})
"""Operators that count the true elements of an index of truth values, and wait for it."""
_OF_NUMBERS: Final = frozenset({"_operator", "math", "builtins"})
"""Modules whose functions, in a graph of operators, work on numbers and on tuples of results."""
_WRAPPERS: Final = frozenset({"auto_functionalized", "auto_functionalized_v2"})
"""Higher order operators that run the operator which is their first argument, and no more."""


def why_not_operator(node: fx.Node) -> str | None:
    """What in an operator cannot be recorded, as a clause, or None."""
    target: Any = node.target
    if isinstance(target, HigherOrderOperator):
        return _why_not_higher_order(node, target)
    if isinstance(target, OpOverload):
        return _why_not_overload(node, target)
    if getattr(target, "__module__", None) in _OF_NUMBERS or target in _NUMBER_FUNCTIONS or not _makes_tensors(node):
        return None
    return "is a Python function, whose effects a recording does not repeat"


def is_view(node: fx.Node) -> bool:
    """Whether a node makes another view of its argument and computes nothing."""
    target: Any = node.target
    if target is operator.getitem:
        return True
    if not isinstance(target, OpOverload):
        return False
    returned = [value.alias_info for value in target._schema.returns]
    return bool(returned) and all(info is not None and not info.is_write for info in returned)


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of what a node gives."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_of(item)


def value_of(node: fx.Node) -> Any:
    """What a node gives, on fakes; None where it was not noted."""
    return node.meta.get("val")


def is_random(node: fx.Node) -> bool:
    """Whether a node draws random numbers."""
    return isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def _why_not_overload(node: fx.Node, target: Any) -> str | None:
    tags = target.tags
    if torch.Tag.cudagraph_unsafe in tags:
        return "is marked by its authors as one that a CUDA graph must not record (torch.Tag.cudagraph_unsafe)"
    name = target._schema.name
    if name in _INDEXING:
        return _why_not_indexing(node)
    if torch.Tag.dynamic_output_shape in tags:
        return "gives a result whose size depends on values"
    if torch.Tag.data_dependent_output in tags or name in _WAITING or _argument(node, target, "check_errors"):
        return "hands a value to the host, which waits for it"
    if _argument(node, target, "generator") is not None:
        return "draws from a random generator of its own, which a recording does not carry on"
    return None


def _argument(node: fx.Node, target: Any, name: str) -> Any:
    """What an operator is given for the argument of this name; None without one."""
    for position, argument in enumerate(target._schema.arguments):
        if argument.name == name:
            return node.args[position] if position < len(node.args) else node.kwargs.get(name)
    return None


def _why_not_indexing(node: fx.Node) -> str | None:
    indices: Any = node.args[1] if len(node.args) > 1 else ()
    for index in indices:
        value = value_of(index) if isinstance(index, fx.Node) else None
        if isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8):
            return f"is indexed by the truth values of {index.name}, which must be counted first"
    return None


def _why_not_higher_order(node: fx.Node, target: Any) -> str | None:
    name = target.name() if callable(target.name) else str(target)
    if name == "with_effects":
        return f"runs {node.args[1]}, whose effects outside of the graph a replay does not repeat"
    if name not in _WRAPPERS:
        return f"is the higher order operator {name!r}, which may run Python or choose by values"
    inner: Any = node.args[0]
    if torch.Tag.cudagraph_unsafe in getattr(inner, "tags", ()):
        return f"runs {inner}, marked as one that a CUDA graph must not record (torch.Tag.cudagraph_unsafe)"
    return None


def _makes_tensors(node: fx.Node) -> bool:
    return value_of(node) is None or any(True for _ in tensors_of(value_of(node)))


_NUMBER_FUNCTIONS: Final = frozenset(
    {torch.sym_float, torch.sym_int, torch.sym_max, torch.sym_min, torch.sym_not, torch.sym_ite, torch.sym_sum}
)
