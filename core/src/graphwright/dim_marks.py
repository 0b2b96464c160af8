"""Marks on tensors that say which of their sizes may vary.

The attributes are those that `mark_dynamic` of torch.compile and its kin set on the tensor object, so that a mark made
through either library is seen by both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from graphwright.exc import CompileArgumentError, CompileValueError

_DYNAMIC, _WEAK, _STATIC, _UNBACKED = (
    "_dynamo_dynamic_indices",
    "_dynamo_weak_dynamic_indices",
    "_dynamo_static_indices",
    "_dynamo_unbacked_indices",
)
PROPAGATED = "_dynamo_propagated_dynamic_indices"
"""Where AOTAutograd notes the sizes that vary in what its graphs return."""


class DimRange(NamedTuple):
    """The least and greatest size a dimension may have; None for no limit."""

    dim: int
    min: int | None
    max: int | None


def mark_dynamic(
    tensor: torch.Tensor, index: int | Iterable[int], *, min: int | None = None, max: int | None = None
) -> None:
    """Make sizes symbolic from the first capture on; it is an error if the program then fixes one.

    Args:
        tensor: The tensor that will be passed in. The mark belongs to this tensor object.
        index: One or several dimensions.
        min: Least size that has to be served.
        max: Greatest size that has to be served.

    Raises:
        CompileArgumentError: `tensor` is no tensor, or a dimension or a limit no int.
        CompileValueError: The tensor has no such dimension, or no size lies between the limits.
    """
    _check_limits(min, max)
    for dim in _mark("mark_dynamic", tensor, index, _DYNAMIC):
        ranges = tensor.__dict__.setdefault("_dynamo_dynamic_range", set())
        ranges.add(DimRange(dim, min, max))
        tensor.__dict__.setdefault("_dynamo_hint_overrides", {})
        tensor.__dict__.setdefault("_specialize_on", {})[dim] = []


def maybe_mark_dynamic(tensor: torch.Tensor, index: int | Iterable[int]) -> None:
    """Make sizes symbolic from the first capture on, where the program allows; see `mark_dynamic`."""
    _mark("maybe_mark_dynamic", tensor, index, _WEAK)


def mark_static(tensor: torch.Tensor, index: int | Iterable[int] | None = None) -> None:
    """Keep sizes constant in every capture, a new capture for each; None means all of them. See `mark_dynamic`."""
    if index is None:
        _check_tensor("mark_static", tensor)
        index = range(tensor.dim())
    _mark("mark_static", tensor, index, _STATIC)


def mark_unbacked(tensor: torch.Tensor, index: int | Iterable[int]) -> None:
    """Make sizes symbolic and never assume one, not even 0 or 1; see `mark_dynamic`."""
    for dim in _mark("mark_unbacked", tensor, index, _UNBACKED):
        tensor.__dict__.setdefault("_dynamo_hint_overrides", {})
        tensor.__dict__.setdefault("_specialize_on", {})[dim] = []


def mark_static_address(tensor: torch.Tensor, guard: bool = False) -> None:
    """Say that this tensor stays at one address over all calls, as parameters do; for backends that record addresses.

    Args:
        tensor: The tensor.
        guard: Capture anew when the address changes.

    Raises:
        CompileArgumentError: `tensor` is no tensor.
    """
    _check_tensor("mark_static_address", tensor)
    tensor.__dict__["_dynamo_static_input_type"] = "guarded" if guard else "unguarded"


def has_static_address(tensor: torch.Tensor) -> bool:
    """Whether a tensor is marked to stay at one address."""
    return "_dynamo_static_input_type" in tensor.__dict__


def dynamic_dims(tensor: torch.Tensor) -> frozenset[int]:
    """Dimensions that must be symbolic."""
    return frozenset(tensor.__dict__.get(_DYNAMIC, ()))


def maybe_dynamic_dims(tensor: torch.Tensor) -> frozenset[int]:
    """Dimensions that should be symbolic: marked, or known to AOTAutograd to vary in a graph's result."""
    return frozenset(tensor.__dict__.get(_WEAK, ())) | frozenset(tensor.__dict__.get(PROPAGATED, ()))


def static_dims(tensor: torch.Tensor) -> frozenset[int]:
    """Dimensions that must not be symbolic."""
    return frozenset(tensor.__dict__.get(_STATIC, ()))


def unbacked_dims(tensor: torch.Tensor) -> frozenset[int]:
    """Dimensions that must be symbolic without a value to go by."""
    return frozenset(tensor.__dict__.get(_UNBACKED, ()))


def dim_ranges(tensor: torch.Tensor) -> dict[int, DimRange]:
    """The ranges given for dynamic dimensions."""
    ranges = tensor.__dict__.get("_dynamo_dynamic_range", ())
    return {each.dim: DimRange(each.dim, each.min, each.max) for each in ranges}


def _mark(caller: str, tensor: torch.Tensor, index: int | Iterable[int], attribute: str) -> list[int]:
    _check_tensor(caller, tensor)
    dims: list[Any] = [index] if isinstance(index, int) else list(index)
    for dim in dims:
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise CompileArgumentError(f"graphwright.{caller}: index must be an int or several, not {dim!r}")
        if not 0 <= dim < tensor.dim():
            raise CompileValueError(
                f"graphwright.{caller}: a tensor of {tensor.dim()} dimensions has no dimension {dim}; count from 0"
            )
    tensor.__dict__.setdefault(attribute, set()).update(dims)
    tensor.__dict__["_has_dynamo_dim_marking"] = True
    return dims


def _check_limits(least: object, most: object) -> None:
    for name, limit in (("min", least), ("max", most)):
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
            raise CompileArgumentError(f"graphwright.mark_dynamic: {name} must be an int or None, not {limit!r}")
        if limit is not None and limit < 0:
            raise CompileValueError(f"graphwright.mark_dynamic: {name} is {limit}, but no size is negative")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise CompileValueError(f"graphwright.mark_dynamic: no size is at least {least} and at most {most}")


def _check_tensor(caller: str, tensor: object) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise CompileArgumentError(f"graphwright.{caller}: expected a tensor, not {tensor!r} ({type(tensor).__name__})")
