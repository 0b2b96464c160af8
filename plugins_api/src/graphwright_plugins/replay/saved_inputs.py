"""Metadata of a graph's inputs as JSON, and inputs made of it: real ones for a call, fakes to compile for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch

from graphwright_plugins.graphs.facts import memory_of
from graphwright_plugins.graphs.symbols import is_symbolic
from graphwright_plugins.torch_compat import FakeTensorMode, as_fake, as_symbolic, hint_of

Code: TypeAlias = Mapping[str, Any]
"""What JSON can hold."""


def encode_inputs(example_inputs: Sequence[Any]) -> list[Code]:
    """What is known of inputs: of tensors size, strides, dtype, device, gradient, and which share memory."""
    groups: dict[int, int] = {}
    return [_encode(value, groups) for value in example_inputs]


def _encode(value: Any, groups: dict[int, int]) -> Code:
    if not isinstance(value, torch.Tensor):
        return {"number": _hint(value), "varies": is_symbolic(value)}
    [key] = memory_of(value)
    return {
        "size": [_hint(size) for size in value.shape],
        "stride": [_hint(step) for step in value.stride()],
        "offset": _hint(value.storage_offset()),
        "varying": [dim for dim, size in enumerate(value.shape) if is_symbolic(size)],
        "dtype": str(value.dtype).removeprefix("torch."),
        "device": str(value.device),
        "requires_grad": value.requires_grad,
        "is_leaf": value.is_leaf,
        "memory": groups.setdefault(key, len(groups)),
    }


def _hint(number: Any) -> Any:
    """A number as it was in the call that was compiled for; 4 for one that only the graph knew."""
    if not is_symbolic(number):
        return number
    hint = hint_of(number)
    return 4 if hint is None else hint


def real_inputs(codes: Sequence[Code]) -> list[Any]:
    """Inputs with random values; integers are 0 or 1, which is in range for most that index something."""
    needed: dict[int, int] = {}
    for code in filter(_is_tensor, codes):
        itemsize: int = getattr(torch, code["dtype"]).itemsize
        last = sum((size - 1) * step for size, step in zip(code["size"], code["stride"], strict=True))
        n_bytes = (code["offset"] + last + 1) * itemsize if 0 not in code["size"] else 0
        needed[code["memory"]] = max(needed.get(code["memory"], 0), n_bytes)
    bases: dict[int, torch.Tensor] = {}
    return [_real(code, bases, needed) for code in codes]


def _is_tensor(code: Code) -> bool:
    return "size" in code


def _real(code: Code, bases: dict[int, torch.Tensor], needed: Mapping[int, int]) -> Any:
    if not _is_tensor(code):
        return code["number"]
    dtype: torch.dtype = getattr(torch, code["dtype"])
    base = bases.get(code["memory"])
    if base is None:
        count = -(-needed[code["memory"]] // dtype.itemsize)
        base = bases[code["memory"]] = _random(count, dtype, code["device"])
    whole = base if base.dtype is dtype else base.view(torch.uint8).view(dtype)
    tensor = whole.as_strided(code["size"], code["stride"], code["offset"]).detach()
    if not code["requires_grad"]:
        return tensor
    tensor.requires_grad_()
    return tensor if code["is_leaf"] else tensor.view_as(tensor)


def _random(count: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(count, device=device).to(dtype)
    return torch.randint(0, 2, (count,), device=device).to(dtype)


def fake_inputs(codes: Sequence[Code], real: Sequence[Any], fake_mode: FakeTensorMode) -> list[Any]:
    """Fakes of real inputs, symbolic in the dimensions that were; symbols are alike where sizes are."""
    return [_fake(code, value, fake_mode) for code, value in zip(codes, real, strict=True)]


def _fake(code: Code, value: Any, fake_mode: FakeTensorMode) -> Any:
    if code.get("varying"):
        return as_symbolic(fake_mode, value, code["varying"])
    return as_fake(fake_mode, value)
