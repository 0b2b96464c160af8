"""Copies of tensors that keep sizes, strides and shared memory exactly as they are."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .torch_compat import neg_view

_ALIGNMENT = 64  # bytes; a multiple of every dtype's size


def span(tensor: torch.Tensor) -> int:
    """How many elements lie from a tensor's first to its last one, those between them that are not its own included."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def has_own_places(tensor: torch.Tensor) -> bool:
    """Whether surely no two elements of a tensor are one place in memory, as they are in an expanded one."""
    reach = 0
    steps = sorted((step, size) for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1)
    for step, size in steps:
        if step <= reach:
            return False
        reach += (size - 1) * step
    return True


def buffer_like(tensor: torch.Tensor) -> torch.Tensor:
    """Memory of the same sizes and strides, its values left as they come, read with the same marks."""
    buffer = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    buffer = buffer.conj() if tensor.is_conj() else buffer
    return neg_view(buffer) if tensor.is_neg() else buffer


def marks(tensor: torch.Tensor) -> int:
    """Whether a tensor's memory is read as conjugated or negated numbers; 0 for one that is read as it is."""
    return 2 * tensor.is_conj() + tensor.is_neg()


def same_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Another tensor of the same memory that is no view: a view would keep its base alive, one more tensor of it.

    The tensor's memory must be read as it is; see `marks`.
    """
    return _view_of(tensor.untyped_storage(), tensor, int(tensor.storage_offset()) * tensor.itemsize)


def copy_into(buffer: torch.Tensor, value: torch.Tensor) -> None:
    """Copy a tensor into one of the same sizes and strides."""
    if has_own_places(buffer):
        buffer.copy_(value)
    elif buffer.numel():
        _stretch(buffer).copy_(_stretch(value))


def clone_together(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Clones of tensors of one storage that share memory with each other as the tensors do."""
    if len(tensors) == 1:
        clone = buffer_like(tensors[0])
        copy_into(clone, tensors[0])
        return [clone]
    starts = [int(tensor.storage_offset()) * tensor.itemsize for tensor in tensors]
    first = min(starts) // _ALIGNMENT * _ALIGNMENT
    end = max(start + span(tensor) * tensor.itemsize for start, tensor in zip(starts, tensors, strict=True))
    storage = _bytes(tensors[0], first, end).clone().untyped_storage()
    return [_view_of(storage, tensor, start - first) for start, tensor in zip(starts, tensors, strict=True)]


def _stretch(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.as_strided((span(tensor),), (1,), tensor.storage_offset())


def _bytes(tensor: torch.Tensor, first: int, end: int) -> torch.Tensor:
    whole = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return whole.set_(tensor.untyped_storage(), first, (end - first,), (1,))


def _view_of(storage: torch.UntypedStorage, like: torch.Tensor, start: int) -> torch.Tensor:
    view = torch.empty(0, dtype=like.dtype, device=like.device)
    return view.set_(storage, start // like.itemsize, like.size(), like.stride())
