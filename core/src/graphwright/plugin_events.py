"""Tells the event stream to installed plugins, and lets them change graphs.

Plugins (entry points of the group `graphwright.plugins`) are imported when the first capture starts. What a plugin
raises in an event hook is logged with its name and goes no further; in `transform_graph` it is an error of the capture.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

import graphwright.events as events
from graphwright.events import Event
from graphwright.exc import CodeLocation
from graphwright_plugins import (
    CacheOutcome,
    PluginError,
    Plugins,
    WeightsChange,
    listen_to_artifacts,
    listen_to_cache,
    listen_to_weights,
    load_plugins,
)


def _place(location: CodeLocation | None) -> dict[str, Any]:
    return {
        "filename": location.filename if location is not None else "",
        "lineno": location.line if location is not None else 0,
    }


def _failure_of_backend(
    event: events.BackendFailed | events.GraphLeftToEager | events.BackendFellBack,
) -> dict[str, Any]:
    return {
        "compile_id": event.compile_id,
        "graph_name": event.graph_name,
        "backend": event.backend,
        "error": event.error,
    }


_HOOKS: Mapping[type[Event], tuple[str, Callable[[Any], dict[str, Any]]]] = {
    events.FrameStarted: (
        "capture_started",
        lambda e: {"compile_id": e.compile_id, "function": e.function, **_place(e.location)},
    ),
    events.FrameSkipped: (
        "frame_skipped",
        lambda e: {"function": e.function, "reason": e.reason, "remedy": e.remedy, **_place(e.location)},
    ),
    events.GraphBroke: (
        "graph_break",
        lambda e: {
            "compile_id": e.compile_id,
            "break_id": e.gw_id,
            "reason": e.reason,
            "remedy": e.remedy,
            **_place(e.location),
        },
    ),
    events.GraphCaptured: (
        "graph_captured",
        lambda e: {
            "compile_id": e.compile_id,
            "graph_name": e.name,
            "graph": e.graph_module,
            "example_inputs": e.example_inputs,
        },
    ),
    events.GraphCompiled: (
        "graph_compiled",
        lambda e: {
            "compile_id": e.compile_id,
            "graph_name": e.name,
            "backend": e.backend,
            "duration_us": e.seconds * 1e6,
        },
    ),
    events.BackendFailed: ("backend_failed", _failure_of_backend),
    events.GraphLeftToEager: ("backend_failed", _failure_of_backend),
    events.BackendFellBack: ("backend_failed", _failure_of_backend),
    events.FrameFinished: (
        "capture_finished",
        lambda e: {
            "compile_id": e.compile_id,
            "function": e.function,
            "outcome": e.outcome,
            "duration_us": e.seconds * 1e6,
        },
    ),
    events.InternalErrorCaught: (
        "internal_error",
        lambda e: {"compile_id": e.compile_id, "function": e.function, "error": e.error},
    ),
    events.Recompiled: (
        "recompile",
        lambda e: {
            "compile_id": e.compile_id,
            "function": e.function,
            "reasons": e.reasons,
            **_place(e.location),
        },
    ),
    events.FrozenWeightsChanged: (
        "weights_changed",
        lambda e: {"function": e.function, "weights": e.changed, "how": e.how, "action": e.action, "reason": e.reason},
    ),
    events.CacheLimitHit: (
        "recompile_limit_hit",
        lambda e: {"function": e.function, "limit": e.limit, "reason": e.reason, **_place(e.location)},
    ),
}


def _tell_artifact(kind: str, name: str, text: Callable[[], str]) -> None:
    if events.is_heard(events.BackendArtifact):
        events.emit(events.BackendArtifact(kind=kind, name=name, text=text()))


def _tell_outcome(outcome: CacheOutcome) -> None:
    if outcome.result in ("rejected", "not_saved"):
        events.emit(
            events.ArtifactRejected(
                backend=outcome.backend, key=outcome.key, reason=outcome.reason, saving=outcome.result == "not_saved"
            )
        )
        return
    events.emit(
        events.ArtifactCacheUsed(
            result=outcome.result,
            backend=outcome.backend,
            key=outcome.key,
            reason=outcome.reason,
            n_bytes=outcome.n_bytes,
            seconds=outcome.seconds,
        )
    )


def _tell_weights(change: WeightsChange) -> None:
    events.emit(
        events.FrozenWeightsChanged(
            function=change.function,
            changed=change.changed,
            how=change.how,
            action=change.action,
            reason=change.reason,
        )
    )


class PluginBridge:
    """Subscribes plugins to the event stream."""

    def __init__(self, load: Callable[[], Plugins] = load_plugins) -> None:
        self._load = load
        self._plugins: Plugins | None = None
        self._lock = threading.Lock()

    @property
    def plugins(self) -> Plugins:
        """The plugins, loaded when first asked for. One that cannot be loaded is told by the event `MechanismOff`."""
        with self._lock:
            if self._plugins is not None:
                return self._plugins
            failure = None
            try:
                self._plugins = self._load()
            except PluginError as error:
                self._plugins, failure = Plugins(), error
        if failure is not None:
            events.emit(events.MechanismOff(mechanism="plugins", reason=str(failure)))
        return self._plugins

    def tell(self, event: Event) -> None:
        """Call the hook that belongs to an event."""
        hook, arguments = _HOOKS[type(event)]
        if self.plugins.listens(hook):
            self.plugins.notify(hook, **arguments(event))
        if isinstance(event, events.Recompiled) and self.plugins.listens("guard_failed"):
            for failure in event.failures:
                self.plugins.notify(
                    "guard_failed", function=event.function, guard=failure.condition, explanation=failure.text
                )

    def install(self) -> None:
        """Start to follow the event stream, and tell it what backends make on the way."""
        events.subscribe(self.tell, *_HOOKS)
        listen_to_artifacts(_tell_artifact)
        listen_to_cache(_tell_outcome)
        listen_to_weights(_tell_weights)


BRIDGE = PluginBridge()
"""The one bridge of the process."""


def transform(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> fx.GraphModule:
    """Let every plugin change a captured graph in turn.

    Raises:
        graphwright_plugins.HookError: A plugin raised, or left a graph that is not valid.
    """
    return BRIDGE.plugins.transform(graph, example_inputs)
