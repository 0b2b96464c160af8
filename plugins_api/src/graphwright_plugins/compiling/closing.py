"""Giving back what backends hold: those that compiled something are closed by a reset, or at the interpreter's exit."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

from graphwright_plugins.errors import BackendContractError
from graphwright_plugins.protocol import Backend, HasClose

_logger = logging.getLogger("graphwright")


class _UsedBackends:
    """The backends that may hold something. They are held weakly where they can be: one that is gone holds nothing."""

    def __init__(self) -> None:
        self._used: dict[int, Callable[[], Any]] = {}
        self._lock = threading.Lock()
        self._at_exit = False

    def forget(self) -> None:
        """Know of none, in a child process: what they hold is the parent's, and not to be closed by a fork of it."""
        self._used, self._lock = {}, threading.Lock()

    def add(self, backend: Backend) -> None:
        """Remember a backend, if it can be closed."""
        if not isinstance(backend, HasClose) or id(backend) in self._used:
            return
        with self._lock:
            self._used[id(backend)] = self._reference(backend)
            if not self._at_exit:
                atexit.register(self.close_quietly)
                self._at_exit = True

    def _reference(self, backend: Any) -> Callable[[], Any]:
        place = id(backend)
        try:
            return weakref.ref(backend, lambda _: self._used.pop(place, None) and None)
        except TypeError:  # a class without weak references
            return lambda: backend

    def close(self) -> list[tuple[str, Exception]]:
        """Close each; what any raises is returned, with its name, so that the others are closed too."""
        with self._lock:
            references, self._used = list(self._used.values()), {}
        failures = []
        for backend in filter(None, (reference() for reference in references)):
            try:
                backend.close()
            except Exception as error:  # noqa: BLE001  a plugin's code: reported as its bug
                failures.append((str(backend.name), error))
        return failures

    def close_quietly(self) -> None:
        """Close each, and log what any raises: at the interpreter's exit nobody is there to catch it."""
        for name, error in self.close():
            _logger.warning("backend %r could not be closed: %s: %s", name, type(error).__name__, error)


_USED: Final = _UsedBackends()
os.register_at_fork(after_in_child=_USED.forget)


def note_use(backend: Backend) -> None:
    """Remember that a backend compiled something, so that it is closed."""
    _USED.add(backend)


def close_backends() -> None:
    """Close every backend that compiled something since the last time and can be closed; see `HasClose`.

    Raises:
        BackendContractError: The `close` of one raised, after all were tried; the cause is chained.
    """
    failures = _USED.close()
    if failures:
        told = "; ".join(f"backend {name!r}: {type(error).__name__}: {error}" for name, error in failures)
        raise BackendContractError(
            f"closing raised: {told}. The other backends are closed. Report it to the plugin's authors."
        ) from failures[0][1]
