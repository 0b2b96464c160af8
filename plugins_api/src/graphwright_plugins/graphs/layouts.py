"""Where in memory the elements of strided tensors lie."""

from __future__ import annotations

from typing import Any

import torch

from graphwright_plugins.torch_compat import hint_of

from .symbols import is_symbolic


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether several elements of a tensor may lie in one place, as `expand` has them.

    Symbolic sizes are taken as they are in the call that is compiled for; nothing is assumed of them.
    """
    if tensor.layout is not torch.strided:
        return False
    dims = [(_known(step), _known(size)) for size, step in zip(tensor.shape, tensor.stride(), strict=True)]
    if any(size == 0 for _, size in dims):
        return False
    known = [(step, size) for step, size in dims if step is not None and size is not None and size > 1]
    reach = 1
    for step, size in sorted(known):
        if step < reach:
            return True
        reach += (size - 1) * step
    return False


def may_meet(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors of one memory may have an element in common: their stretches of it meet."""
    one, other = _stretch(first), _stretch(second)
    return one is None or other is None or max(one[0], other[0]) < min(one[1], other[1])


def _stretch(tensor: torch.Tensor) -> tuple[int, int] | None:
    """The bytes of its storage that a tensor lies in; None where sizes vary."""
    layout = (*tensor.shape, *tensor.stride())
    start = tensor.storage_offset()
    if isinstance(start, torch.SymInt) or any(isinstance(number, torch.SymInt) for number in layout):
        return None
    last = start + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    end = start if 0 in tensor.shape else last + 1
    return start * tensor.itemsize, end * tensor.itemsize


def _known(number: Any) -> Any:
    return hint_of(number) if is_symbolic(number) else number
