"""Every private name of torch that this backend uses, and nothing else imports one.

Tried with torch 2.13 only. When a torch release moves a name, this is the file to change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch._C import _storage_Use_Count
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

__all__ = ["HigherOrderOperator", "OpOverload", "depends_on_values", "neg_view", "storage_users", "weak_storage"]


def storage_users(storage: torch.UntypedStorage) -> int:
    """How many tensors and handles share a storage at the moment."""
    return _storage_Use_Count(storage._cdata)


def weak_storage(tensor: torch.Tensor) -> Callable[[], torch.UntypedStorage | None]:
    """A function that gives the tensor's storage as long as something else keeps it alive."""
    weak = tensor.untyped_storage()._weak_ref()
    handle = _WeakHandle(weak)
    return handle.storage


def depends_on_values(value: Any) -> bool:
    """Whether a fake tensor's sizes, or a symbolic number, are known only when the graph runs."""
    if isinstance(value, (tuple, list)):
        return any(map(depends_on_values, value))
    symbolic = isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool))
    return symbolic and bool(free_unbacked_symbols(value))


def neg_view(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor read as its negative."""
    return torch._neg_view(tensor)


class _WeakHandle:
    """Frees torch's weak handle of a storage with itself."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._free = torch.UntypedStorage._free_weak_ref

    def storage(self) -> torch.UntypedStorage | None:
        return cast("torch.UntypedStorage | None", torch.UntypedStorage._new_with_weak_ptr(self._handle))

    def __del__(self) -> None:
        self._free(self._handle)  # type: ignore[no-untyped-call]  # torch's, without annotations
