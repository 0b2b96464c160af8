"""State of the thread that decides what torch operations do, and that a graph may change on its way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from graphwright_plugins.torch_compat import ATTENTION_KERNELS, set_grad_enabled

StateCall: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function that sets state, and its arguments, which are constants."""


def _autocast_devices() -> tuple[str, ...]:
    accelerator = torch.accelerator.current_accelerator(check_available=False)
    return tuple(dict.fromkeys(("cpu", "cuda", *([accelerator.type] if accelerator is not None else ()))))


def _autocast_nesting() -> int:
    depth: int = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    return depth - 1


@dataclass(frozen=True, slots=True)
class AmbientState:
    """Grad mode, autocast and allowed attention kernels of the thread."""

    grad_enabled: bool
    """Whether operations are recorded for gradients."""
    autocast: tuple[tuple[str, bool, torch.dtype], ...]
    """For each device type, whether autocast is on and to which dtype."""
    autocast_cache: bool
    """Whether autocast keeps the casts of parameters."""
    autocast_nesting: int
    """How many autocast regions are open."""
    attention_kernels: tuple[bool, ...]
    """Which kernels of scaled dot product attention are allowed."""

    @staticmethod
    def current() -> AmbientState:
        """The state of this thread now."""
        return AmbientState(
            torch.is_grad_enabled(),
            tuple((d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _autocast_devices()),
            torch.is_autocast_cache_enabled(),
            _autocast_nesting(),
            tuple(allowed() for allowed, _ in ATTENTION_KERNELS),
        )

    def calls_from(self, before: AmbientState) -> list[StateCall]:
        """The calls that turn the state `before` into this one."""
        calls: list[StateCall] = []
        if self.grad_enabled != before.grad_enabled:
            calls.append((set_grad_enabled, (self.grad_enabled,)))
        for (device, enabled, dtype), (_, old_enabled, old_dtype) in zip(self.autocast, before.autocast, strict=True):
            if enabled != old_enabled:
                calls.append((torch.set_autocast_enabled, (device, enabled)))
            if dtype != old_dtype:
                calls.append((torch.set_autocast_dtype, (device, dtype)))
        if self.autocast_cache != before.autocast_cache:
            calls.append((torch.set_autocast_cache_enabled, (self.autocast_cache,)))
        for (_, allow), allowed, was in zip(
            ATTENTION_KERNELS, self.attention_kernels, before.attention_kernels, strict=True
        ):
            if allowed != was:
                calls.append((allow, (allowed,)))
        deeper = self.autocast_nesting - before.autocast_nesting
        calls += [(torch.autocast_increment_nesting, ())] * deeper
        calls += [(torch.autocast_decrement_nesting, ())] * -deeper
        return calls

    def install(self) -> None:
        """Make this the state of the thread."""
        for function, args in self.calls_from(AmbientState.current()):
            function(*args)
