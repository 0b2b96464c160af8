"""What cache entries are filed under: one object for each backend with its options and what stands in for it,
`fullgraph` and `dynamic`.

Entries compare keys by identity, so two `compile` calls that ask for the same thing must get the same key object. A
key outlives the compiled functions that use it (a code object's cache keeps it alive, where the garbage collector does
not look), so it holds the backend weakly; the backend is kept by the compiled functions.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Hashable
from types import MethodType
from typing import Any, final

import graphwright._native as _native
import graphwright.config as config
from graphwright.exc import InternalError
from graphwright.settings import Settings
from graphwright_plugins import ResolvedBackend


@final
class CacheKey:
    """Identifies one way to compile. Compared by identity; make one with `intern_key`."""

    __slots__ = ("__weakref__", "_backend", "_watches", "backend_name", "dynamic", "fullgraph")

    backend_name: str
    """The backend's name, for messages."""
    fullgraph: bool
    """Whether a graph break is an error."""
    dynamic: bool | None
    """Sizes symbolic from the start (True), never (False), or where they changed (None)."""

    def __init__(self, backend: ResolvedBackend, *, fullgraph: bool = False, dynamic: bool | None = None) -> None:
        self._backend = weakref.ref(backend)
        self._watches: tuple[Any, ...] = ()
        self.backend_name = backend.name
        self.fullgraph = fullgraph
        self.dynamic = dynamic

    @property
    def backend(self) -> ResolvedBackend:
        """The backend with its options; alive as long as a function compiled with this key is.

        Raises:
            InternalError: All of those are gone.
        """
        backend = self._backend()
        if backend is None:
            raise InternalError(f"the backend {self.backend_name!r} of a cache key is gone, yet a capture asks for it")
        return backend

    @property
    def settings(self) -> Settings:
        """The settings in force now."""
        return config.current()

    def adopt(self, backend: ResolvedBackend) -> ResolvedBackend:
        """The backend to keep alive for this key: the one it knows, or this equal one if that died."""
        known = self._backend()
        if known is not None:
            return known
        self._backend = weakref.ref(backend)
        return backend

    def watch(self, function: Any) -> None:
        """Let the entries go when the backend does: nobody can ask for them again, yet code objects would keep them."""
        known, reset_key = weakref.ref(self), _native.reset_key  # a module's globals may be gone when a backend goes

        def drop(_: object) -> None:
            key = known()
            if key is not None:
                reset_key(key)

        for part in _parts(function):
            with contextlib.suppress(TypeError):  # no weak references: it is kept, see _reference
                self._watches = (*self._watches, weakref.ref(part, drop))

    def __repr__(self) -> str:
        return f"CacheKey(backend={self.backend_name!r}, fullgraph={self.fullgraph}, dynamic={self.dynamic})"


class _Weakly:
    """Stands for an object in a dict key without keeping it alive; equal to another only while both are the same."""

    def __init__(self, value: Any) -> None:
        parts = _parts(value)
        self._refs = tuple(map(_reference, parts))
        self._hash = hash(tuple(map(id, parts)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Weakly) or len(self._refs) != len(other._refs):
            return NotImplemented
        mine, theirs = [ref() for ref in self._refs], [ref() for ref in other._refs]
        return all(a is not None and a is b for a, b in zip(mine, theirs, strict=True))


def _parts(value: Any) -> tuple[Any, ...]:
    """A bound method is made anew each time it is asked for; what it is made of stays."""
    return (value.__self__, value.__func__) if isinstance(value, MethodType) else (value,)


def _reference(value: Any) -> Any:
    try:
        return weakref.ref(value)
    except TypeError:  # a class without weak references: kept, as there is no telling when it died
        return lambda: value


class _KeyTable:
    """The keys that are alive."""

    def __init__(self) -> None:
        self._keys: dict[Hashable, weakref.ref[CacheKey]] = {}
        self._lock = threading.RLock()  # a key may die, and take the lock, while this thread holds it

    def renew_lock(self) -> None:
        """Have a free lock, in a child process forked while another thread held it."""
        self._lock = threading.RLock()

    def intern(
        self, backend: ResolvedBackend, fullgraph: bool, dynamic: bool | None
    ) -> tuple[CacheKey, ResolvedBackend]:
        index = (_identity(backend), fullgraph, dynamic)
        with self._lock:
            found = self._keys.get(index)
            key = found() if found is not None else None
            if key is None:
                key = CacheKey(backend, fullgraph=fullgraph, dynamic=dynamic)
                self._keys[index] = weakref.ref(key, lambda ref: self._drop(index, ref))
                key.watch(_backend_function(backend))
            return key, key.adopt(backend)

    def _drop(self, index: Hashable, ref: weakref.ref[CacheKey]) -> None:
        with self._lock:
            for known, value in list(self._keys.items()):  # by identity: a dead backend makes `index` unequal to itself
                if value is ref:
                    del self._keys[known]


def _identity(backend: ResolvedBackend) -> Hashable:
    key: Any = backend.key  # name, identity of the backend, options, and more; its identity keeps the backend alive
    fallback = _identity(backend.fallback) if backend.fallback is not None else None
    return (key[0], _Weakly(_backend_function(backend)), key[2], fallback, backend.on_error)


def _backend_function(backend: ResolvedBackend) -> Any:
    return getattr(backend.backend, "function", backend.backend)


_TABLE = _KeyTable()
os.register_at_fork(after_in_child=_TABLE.renew_lock)


def intern_key(
    backend: ResolvedBackend, *, fullgraph: bool = False, dynamic: bool | None = None
) -> tuple[CacheKey, ResolvedBackend]:
    """The key for this way to compile, and the backend object that its user must keep alive."""
    return _TABLE.intern(backend, fullgraph, dynamic)
