"""Has backends get ready before their first graph comes: once for each backend and options."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from graphwright_plugins.errors import PluginError, PrepareFailed
from graphwright_plugins.protocol import Backend, HasPrepare


class _Prepared:
    """What is prepared already; it keeps no backend alive."""

    def __init__(self) -> None:
        self._done: dict[int, tuple[Callable[[], Any], set[Hashable]]] = {}
        self._lock = threading.RLock()

    def once(self, backend: HasPrepare, options: Any, key: Hashable, told: str) -> None:
        """Prepare a backend for options that it was not prepared for yet. One that fails is asked again."""
        with self._lock:
            known = self._done.get(id(backend))
            if known is None or known[0]() is not backend:
                known = self._done[id(backend)] = (_reference(backend), set())
            if key in known[1]:
                return
            try:
                backend.prepare(options)
            except PluginError:
                raise
            except Exception as error:
                raise PrepareFailed(
                    f"{told} raised {type(error).__name__} in prepare(), before its first graph: {error}. "
                    "Report it to its authors, or choose another backend."
                ) from error
            known[1].add(key)


_prepared = _Prepared()


def prepare(backend: Backend, options: Any, key: Hashable, told: str) -> None:
    """Let a backend get ready to compile, unless it has already done so for these options.

    Args:
        backend: The backend.
        options: Its options.
        key: The options in a form that can be compared.
        told: The backend in words, for the error: `"backend 'name' of some-package 1.0"`.

    Raises:
        PrepareFailed: The backend raised something that is no error of the contract's.
        PluginError: What the backend raised: it can't work here, or is out of something.
    """
    if isinstance(backend, HasPrepare):
        _prepared.once(backend, options, key, told)


def _reference(value: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(value)
    except TypeError:  # a class without weak references
        return lambda: value
