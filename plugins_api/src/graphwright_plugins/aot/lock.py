"""One compilation at a time: while torch traces a graph it patches classes, such as `nn.Module`, for all threads."""

from __future__ import annotations

import os
import threading
from types import TracebackType


class _CompileLock:
    """A lock that a thread may take again, and that is free in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def renew(self) -> None:
        """Be free, in a child process forked while another thread held the lock."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()


COMPILE_LOCK = _CompileLock()
"""Held by whoever goes through AOTAutograd or Inductor."""
os.register_at_fork(after_in_child=COMPILE_LOCK.renew)
