"""Global state of torch that a program may change inside a graph, and process state that a backend must not."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from graphwright.torch_compat import ATTENTION_KERNELS, set_grad_enabled

StateCall = tuple[Callable[..., Any], tuple[Any, ...]]


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
    autocast: tuple[tuple[str, bool, torch.dtype], ...]
    autocast_cache: bool
    autocast_nesting: int
    attention_kernels: tuple[bool, ...]

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


@contextlib.contextmanager
def under(state: AmbientState) -> Iterator[None]:
    """Run under a state, then return to the present one."""
    present = AmbientState.current()
    state.install()
    try:
        yield
    finally:
        present.install()


@contextlib.contextmanager
def process_state_kept() -> Iterator[None]:
    """Put back random states, default dtype and determinism, whatever a backend does to them."""
    python_random = random.getstate()
    torch_random = torch.random.get_rng_state()
    cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
    cuda_random = torch.cuda.get_rng_state_all() if cuda else []
    default_dtype = torch.get_default_dtype()
    deterministic = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        yield
    finally:
        random.setstate(python_random)
        torch.random.set_rng_state(torch_random)
        if cuda:
            torch.cuda.set_rng_state_all(cuda_random)
        torch.set_default_dtype(default_dtype)
        torch.use_deterministic_algorithms(deterministic[0], warn_only=deterministic[1])
