"""Compiling by way of the artifact store: look up, load; or else compile and save."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final

from torch import fx

from graphwright_plugins.errors import BackendContractError, NotCacheable
from graphwright_plugins.graphs.hashing import UnstableGraph
from graphwright_plugins.naming import backend_in_words, raised
from graphwright_plugins.protocol import Backend, CompiledGraph, HasArtifacts
from graphwright_plugins.store.artifact_store import (
    Artifact,
    ArtifactMeta,
    ArtifactStore,
    DamagedArtifact,
    UnusableStore,
)
from graphwright_plugins.store.outcomes import CacheOutcome, CacheResult, tell_outcome
from graphwright_plugins.store.settings import ArtifactSettings, current_artifact_settings
from graphwright_plugins.torch_compat import outside_tracing

from .key import artifact_key, artifact_meta
from .size_assumptions import SizeWatch, why_not_assumed

_wanted: Final[ContextVar[bool]] = ContextVar("graphwright_artifacts_wanted", default=False)


def artifacts_wanted() -> bool:
    """Whether what is being compiled will be saved: a backend may have to compile in another way for that."""
    return _wanted.get()


@dataclass(frozen=True)
class OwnedBackend:
    """A backend with its options, and whose it is."""

    backend: Backend
    """The backend."""
    options: Any
    """The validated options."""
    distribution: str | None
    """The distribution it came from."""
    version: str | None
    """That distribution's version."""

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        """Have the backend compile a graph, whatever it returns."""
        return self.backend.compile(graph, example_inputs, self.options)


def compile_or_load(owned: OwnedBackend, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
    """Compile a graph, or load what an earlier process compiled of the same graph in the same way.

    The store is used if the settings in force ask for it and the backend has artifacts. Every look into it has an
    outcome, see `listen_to_cache`. Nothing that goes wrong with the store, or in the backend's methods for it, keeps
    a graph from being compiled.
    """
    settings = current_artifact_settings()
    if settings.mode == "off" or not isinstance(owned.backend, HasArtifacts):
        return owned.compile(graph, example_inputs)
    try:
        visit = _Visit(owned, owned.backend, graph, example_inputs, settings)
    except (NotCacheable, UnstableGraph) as error:
        _tell("not_cached", owned, reason=str(error))
        return owned.compile(graph, example_inputs)
    except (UnusableStore, BackendContractError) as error:
        _tell("rejected", owned, reason=str(error))
        return owned.compile(graph, example_inputs)
    return visit.load() or visit.compile()


class _Visit:
    """One graph's visit to the store."""

    def __init__(
        self,
        owned: OwnedBackend,
        artifacts: HasArtifacts,
        graph: fx.GraphModule,
        example_inputs: Sequence[Any],
        settings: ArtifactSettings,
    ) -> None:
        self._owned, self._artifacts = owned, artifacts
        self._graph, self._inputs = graph, example_inputs
        self._meta = artifact_meta(
            owned.backend, owned.distribution, owned.version, graph, example_inputs, owned.options
        )
        self._key = artifact_key(self._meta)
        self._sizes = SizeWatch(example_inputs)
        self._store = ArtifactStore(settings.place, settings.limit_bytes, read_only=settings.mode == "read_only")

    def load(self) -> CompiledGraph | None:
        """What the store has for this graph, loaded; or None, and the outcome says why."""
        started = time.perf_counter()
        try:
            found = self._store.get(self._key)
        except (DamagedArtifact, UnusableStore) as error:
            self._tell("rejected", str(error))
            return None
        if found is None:
            self._tell("miss", "there is no artifact of this graph, compiled in this way")
            return None
        reason = self._why_not(found.meta)
        if reason is not None:
            self._tell("rejected", reason)
            return None
        compiled = self._loaded(found)
        # Assumed last, so that an artifact which doesn't load leaves no guards behind.
        reason = why_not_assumed(found.meta.assumptions, self._inputs) if compiled is not None else None
        if reason is not None:
            self._tell("miss", reason)
            return None
        if compiled is not None:
            self._tell("hit", n_bytes=len(found.data), started=started)
        return compiled

    def _why_not(self, meta: ArtifactMeta) -> str | None:
        if replace(meta, assumptions=()) != replace(self._meta, assumptions=()):
            return "the artifact under this key was made for something else"
        try:
            reason: Any = self._artifacts.compatible(meta)
        except Exception as error:  # noqa: BLE001  a plugin's code: reported as its bug
            return self._raised("compatible", error)
        if reason is not None and not (isinstance(reason, str) and reason):
            return self._bug("compatible", f"returned {reason!r}; it must return None or a reason as text")
        return None if reason is None else f"the backend refuses it: {reason}"

    def _loaded(self, found: Artifact) -> CompiledGraph | None:
        try:
            with outside_tracing():
                compiled: Any = self._artifacts.load(found.data, self._owned.options)
        except Exception as error:  # noqa: BLE001  a plugin's code: reported as its bug
            self._tell("rejected", self._raised("load", error))
            return None
        if not callable(compiled):
            self._tell("rejected", self._bug("load", f"returned {compiled!r}, which can't be called"))
            return None
        function: CompiledGraph = compiled
        return function

    def compile(self) -> Any:
        """Compile the graph, and save the result where that can be done."""
        if self._store.read_only:
            return self._owned.compile(self._graph, self._inputs)
        with _saving():
            compiled = self._owned.compile(self._graph, self._inputs)
        if callable(compiled):
            self._save(compiled)
        return compiled

    def _save(self, compiled: CompiledGraph) -> None:
        started = time.perf_counter()
        try:
            assumptions = self._sizes.assumed()
            with outside_tracing():
                data: Any = self._artifacts.save(compiled)
        except NotCacheable as error:
            self._tell("not_cached", str(error))
            return
        except Exception as error:  # noqa: BLE001  a plugin's code: reported as its bug
            self._tell("not_saved", self._raised("save", error))
            return
        if not isinstance(data, bytes):
            self._tell("not_saved", self._bug("save", f"returned a {type(data).__name__} where bytes are expected"))
            return
        try:
            n_bytes = self._store.put(self._key, Artifact(replace(self._meta, assumptions=assumptions), data))
        except UnusableStore as error:
            self._tell("not_saved", str(error))
            return
        self._tell("saved", n_bytes=n_bytes, started=started)

    def _raised(self, method: str, error: Exception) -> str:
        return self._bug(method, f"raised {raised(error)}")

    def _bug(self, method: str, what: str) -> str:
        whose = backend_in_words(self._owned.backend.name, self._owned.distribution, self._owned.version)
        return f"{method} of {whose} {what}. Report it to the backend's authors"

    def _tell(self, result: CacheResult, reason: str = "", *, n_bytes: int = 0, started: float | None = None) -> None:
        _tell(result, self._owned, self._key, reason, n_bytes, started)


def _tell(
    result: CacheResult,
    owned: OwnedBackend,
    key: str = "",
    reason: str = "",
    n_bytes: int = 0,
    started: float | None = None,
) -> None:
    seconds = 0.0 if started is None else time.perf_counter() - started
    tell_outcome(CacheOutcome(result, owned.backend.name, key, reason, n_bytes, seconds))


@contextlib.contextmanager
def _saving() -> Iterator[None]:
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)
