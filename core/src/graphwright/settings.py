"""All settings, as one frozen dataclass; the environment is read in one function."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path

from graphwright_plugins import ArtifactSettings, artifact_settings_from_environment
from graphwright_plugins.store.settings import DEFAULT_LIMIT, ArtifactMode


@dataclass(frozen=True, slots=True)
class Settings:
    """What governs capture. Names are those of torch.compile's settings where the meaning is the same."""

    recompile_limit: int = 8
    """Entries a code object may have for one backend before misses run in eager."""
    accumulated_recompile_limit: int = 256
    """Captures of one code object over all its life, entries dropped meanwhile included."""
    fail_on_recompile_limit_hit: bool = False
    """Raise `RecompileLimitExceeded` instead of running in eager."""
    raise_internal_errors: bool = False
    """Raise Graphwright's own bugs instead of running the frame in eager; on in our tests."""
    suppress_errors: bool = False
    """Everywhere do as `on_backend_error="fallback"` of `graphwright.compile` does."""
    automatic_dynamic_shapes: bool = True
    """Make a size or number a symbol when it was another in an earlier capture."""
    assume_static_by_default: bool = True
    """Capture sizes as they are at first; False is `dynamic=True` wherever `compile` was told nothing."""
    capture_dynamic_output_shape_ops: bool = False
    """Capture operations whose result's size depends on values, such as `nonzero`, instead of breaking the graph."""
    capture_scalar_outputs: bool = False
    """Capture `Tensor.item()` as a symbolic number instead of breaking the graph."""
    inline_depth_limit: int = 200
    """How deep calls are inlined before the graph breaks."""
    instruction_limit: int = 2_000_000
    """Instructions a capture may translate before it gives up."""
    reorderable_logging_functions: frozenset[object] = frozenset()
    """Functions whose calls may move after the graph, in order."""
    artifact_cache: ArtifactMode = "off"
    """Keep compiled graphs on disk for other processes, where the backend can: `"off"`, `"on"` or `"read_only"`."""
    artifact_cache_dir: str = ""
    """The folder for them; the platform's folder for caches where this is empty."""
    artifact_cache_size: int = DEFAULT_LIMIT
    """Bytes they may take; past that, what was used longest ago goes."""
    logs: str = ""
    """Comma-separated names of event logs to print; see `graphwright.events`."""

    def __post_init__(self) -> None:
        """Refuse what no setting can be.

        Raises:
            ValueError: a value is of the wrong type, a limit is not positive, or a mode of the artifact cache unknown.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            expected = _why_not(type(field.default), value)
            if expected is not None:
                raise ValueError(f"graphwright setting {field.name!r} must be {expected}, not {value!r}")
        object.__setattr__(self, "reorderable_logging_functions", frozenset(self.reorderable_logging_functions))
        _ = self.artifacts

    @property
    def artifacts(self) -> ArtifactSettings:
        """Whether and where compiled graphs are kept."""
        folder = Path(self.artifact_cache_dir).expanduser() if self.artifact_cache_dir else None
        return ArtifactSettings(self.artifact_cache, folder, self.artifact_cache_size)


def _why_not(kind: type, value: object) -> str | None:
    """What a setting whose default is of this type must be, where the value is not that; else None."""
    if kind is bool:
        return None if isinstance(value, bool) else "True or False"
    if kind is int:
        is_positive = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        return None if is_positive else "a positive integer"
    if kind is str:
        return None if isinstance(value, str) else "text"
    is_several = isinstance(value, (set, frozenset, list, tuple)) and all(map(callable, value))
    return None if is_several else "a set of functions"


def settings_from_environment() -> Settings:
    """The settings as the environment variables ask: `GRAPHWRIGHT_LOGS`, `GRAPHWRIGHT_RAISE_INTERNAL_ERRORS`, and
    `GRAPHWRIGHT_ARTIFACT_CACHE` with `GRAPHWRIGHT_ARTIFACT_CACHE_DIR` and `GRAPHWRIGHT_ARTIFACT_CACHE_SIZE`.
    """
    artifacts = artifact_settings_from_environment()
    return Settings(
        artifact_cache=artifacts.mode,
        artifact_cache_dir="" if artifacts.folder is None else str(artifacts.folder),
        artifact_cache_size=artifacts.limit_bytes,
        logs=os.environ.get("GRAPHWRIGHT_LOGS", ""),
        raise_internal_errors=os.environ.get("GRAPHWRIGHT_RAISE_INTERNAL_ERRORS", "0") not in ("", "0"),
    )
