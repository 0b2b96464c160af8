"""Global state of torch that a program may change inside a graph, and process state that a backend must not."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import torch

from graphwright_plugins.graphs.ambient_state import AmbientState, StateCall

__all__ = ["AmbientState", "StateCall", "process_state_kept", "under"]


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
