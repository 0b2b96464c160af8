"""The size of the process."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource
from collections.abc import Callable
from pathlib import Path

_MIB = 2**20
_STATM = Path("/proc/self/statm")


def collect() -> None:
    """Collect garbage; code objects are invisible to the collector, so what they held is garbage of the next turn."""
    for _ in range(4):
        gc.collect()


def resident() -> float:
    """MiB of memory that the process has now, free memory of the allocator given back."""
    with contextlib.suppress(OSError, AttributeError):  # glibc only
        ctypes.CDLL(None).malloc_trim(0)
    return int(_STATM.read_text().split()[1]) * resource.getpagesize() / _MIB


def growth(work: Callable[[], object], warm_up: Callable[[], object]) -> float:
    """MiB that the process grew by while working."""
    warm_up()
    collect()
    before = resident()
    work()
    collect()
    return resident() - before
