"""Whether and where compiled graphs are kept on disk, as values: nothing here touches the disk."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import platformdirs

ArtifactMode: TypeAlias = Literal["off", "on", "read_only"]
"""No store; read and written; read only, as for one that was filled elsewhere and is shared."""

MODE_VARIABLE: Final = "GRAPHWRIGHT_ARTIFACT_CACHE"
"""Environment variable with the mode: `off`, `on` (or `1`) or `read_only`."""
FOLDER_VARIABLE: Final = "GRAPHWRIGHT_ARTIFACT_CACHE_DIR"
"""Environment variable with the folder."""
SIZE_VARIABLE: Final = "GRAPHWRIGHT_ARTIFACT_CACHE_SIZE"
"""Environment variable with the size limit: bytes, or a number with `K`, `M`, `G` or `T`."""
DEFAULT_LIMIT: Final = 4 * 1024**3
"""Bytes that a store may take where nothing else is said."""

_MODES: Final[Mapping[str, ArtifactMode]] = {
    "": "off",
    "0": "off",
    "off": "off",
    "1": "on",
    "on": "on",
    "read_only": "read_only",
    "read-only": "read_only",
}
_UNITS: Final = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


@dataclass(frozen=True)
class ArtifactSettings:
    """Whether and where compiled graphs are kept. Off by default: what is kept is run in another process."""

    mode: ArtifactMode = "off"
    """Whether the store is used."""
    folder: Path | None = None
    """Where it lies; None for the platform's folder for caches."""
    limit_bytes: int = DEFAULT_LIMIT
    """Bytes it may take; past that, what was used longest ago goes."""

    def __post_init__(self) -> None:
        """Refuse what can't be.

        Raises:
            ValueError: An unknown mode, or a limit that isn't a positive number of bytes.
        """
        if self.mode not in get_args(ArtifactMode):
            raise ValueError(f"the mode of the artifact cache must be 'off', 'on' or 'read_only', not {self.mode!r}")
        if self.limit_bytes < 1:
            raise ValueError(f"the artifact cache's limit must be a positive number of bytes, not {self.limit_bytes!r}")

    @property
    def place(self) -> Path:
        """The folder, the default one put in."""
        return self.folder or Path(platformdirs.user_cache_dir("graphwright", appauthor=False)) / "artifacts"


def artifact_settings_from_environment(environment: Mapping[str, str] | None = None) -> ArtifactSettings:
    """The settings that the environment asks for.

    Raises:
        ValueError: A variable has a value that can't be understood.
    """
    variables = os.environ if environment is None else environment
    mode = variables.get(MODE_VARIABLE, "").strip().lower()
    if mode not in _MODES:
        raise ValueError(f"{MODE_VARIABLE} must be 'off', 'on' or 'read_only', not {mode!r}")
    folder = variables.get(FOLDER_VARIABLE, "")
    size = variables.get(SIZE_VARIABLE, "")
    return ArtifactSettings(
        _MODES[mode],
        Path(folder).expanduser() if folder else None,
        parse_size(size, SIZE_VARIABLE) if size else DEFAULT_LIMIT,
    )


def parse_size(text: str, what: str) -> int:
    """Bytes from a text such as `"500M"`.

    Raises:
        ValueError: The text is no size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if size < 1:
        raise ValueError(f"{what} must be a number of bytes, or one with K, M, G or T, such as '500M', not {text!r}")
    return size


_in_force: Final[ContextVar[ArtifactSettings | None]] = ContextVar("graphwright_artifact_settings", default=None)


def current_artifact_settings() -> ArtifactSettings:
    """The settings in force: those of `using_artifact_settings`, or else the environment's."""
    return _in_force.get() or artifact_settings_from_environment()


@contextlib.contextmanager
def using_artifact_settings(settings: ArtifactSettings) -> Iterator[None]:
    """Have what is compiled in this block follow other settings."""
    token = _in_force.set(settings)
    try:
        yield
    finally:
        _in_force.reset(token)
