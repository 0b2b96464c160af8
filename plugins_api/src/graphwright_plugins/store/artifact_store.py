"""Compiled graphs on disk: one file for each, found by key, in a folder that several processes may use at once.

A file is written under another name and then renamed, so that a reader finds all of it or nothing. Its first line says
what it is; a checksum covers the rest. What is found damaged counts as not found, and the caller is told why.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import filelock

from graphwright_plugins.errors import PluginError

_MAGIC: Final = b"graphwright artifact 1\n"
_SUFFIX: Final = ".gwa"
_LOCK_SECONDS: Final = 30.0
_LEFTOVER_SECONDS: Final = 3600.0


class DamagedArtifact(PluginError, ValueError):
    """A stored artifact is not what was written; the message says which file and what is wrong."""


class UnusableStore(PluginError, OSError):
    """The folder can't be used for artifacts; the message says why and what to do."""


@dataclass(frozen=True)
class ArtifactMeta:
    """What is known of an artifact without loading it: all that its key is made of, and what it assumes."""

    backend: str
    """The backend's name."""
    distribution: str | None
    """The distribution it came from."""
    version: str | None
    """That distribution's version."""
    api_version: tuple[int, int]
    """The contract version that it was saved under."""
    torch_version: str
    """The version of torch."""
    graph: str
    """The hash of the graph and its inputs' metadata."""
    options: str
    """The backend's options, as text."""
    key_parts: Mapping[str, str] = field(default_factory=dict)
    """What the backend's `cache_key_parts` gave."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Python, platform, and the state of torch that the graph was compiled under."""
    assumptions: tuple[str, ...] = ()
    """What compiling assumed of symbolic sizes, in terms of the inputs."""


class Artifact(NamedTuple):
    """An artifact as it lies in the store."""

    meta: ArtifactMeta
    """What is known of it."""
    data: bytes
    """What the backend's `save` gave."""


class ArtifactStore:
    """A folder of artifacts.

    Args:
        folder: Where; made when the first artifact is put in.
        limit_bytes: Bytes that all files together may take; what was used longest ago goes first.
        read_only: Never write, not even times of use.

    Raises:
        UnusableStore: Others may write to the folder: what lies there would be run.
    """

    def __init__(self, folder: Path, limit_bytes: int, read_only: bool = False) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.read_only = read_only
        _check_private(folder)

    def get(self, key: str) -> Artifact | None:
        """The artifact of this key, or None.

        Raises:
            DamagedArtifact: There is one that is not whole; it is removed unless the store is read-only.
            UnusableStore: It can't be read.
        """
        path = self._path(key)
        try:
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UnusableStore(f"the artifact {path} can't be read: {error}") from error
        try:
            artifact = _decode(content)
        except DamagedArtifact as error:
            self.remove(key)
            raise DamagedArtifact(f"{path} is damaged: {error}") from error
        if not self.read_only:
            with suppress(OSError):  # it is only the order of eviction that suffers
                os.utime(path)
        return artifact

    def put(self, key: str, artifact: Artifact) -> int:
        """Keep an artifact, in place of one of this key; what was used longest ago goes if the store gets too large.

        Returns:
            The bytes it takes.

        Raises:
            UnusableStore: It can't be written, is read-only, or the artifact alone is larger than the limit.
        """
        if self.read_only:
            raise UnusableStore(f"the artifact store {self.folder} is used read-only")
        content = _encode(artifact)
        if len(content) > self.limit_bytes:
            raise UnusableStore(
                f"the artifact takes {len(content)} bytes, more than the limit of {self.limit_bytes} for all of "
                f"{self.folder}; raise the limit"
            )
        try:
            self._write(self._path(key), content)
        except OSError as error:
            raise UnusableStore(f"the artifact store {self.folder} can't be written: {error}") from error
        self._evict(keep=key)
        return len(content)

    def remove(self, key: str) -> None:
        """Drop the artifact of this key, where there is one and the store may be written."""
        if not self.read_only:
            with suppress(OSError):
                self._path(key).unlink()

    def clear(self) -> None:
        """Drop every artifact."""
        for path, _ in self._files():
            self.remove(path.stem)

    def keys(self) -> list[str]:
        """The keys of all artifacts, the one used longest ago first."""
        return [path.stem for path, _ in sorted(self._files(), key=lambda entry: entry[1].st_mtime_ns)]

    def size(self) -> int:
        """The bytes that all artifacts take."""
        return sum(status.st_size for _, status in self._files())

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}{_SUFFIX}"

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self.folder.glob(f"??/*{_SUFFIX}"):
            with suppress(OSError):  # another process may have dropped it
                yield path, path.stat()

    def _write(self, path: Path, content: bytes) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise

    def _evict(self, keep: str) -> None:
        """Bring the store below its limit. One process at a time; one that has to wait long leaves it to the other."""
        if self.size() <= self.limit_bytes:
            return
        with suppress(filelock.Timeout, OSError), filelock.FileLock(self.folder / ".lock", timeout=_LOCK_SECONDS):
            total = self.size()
            self._remove_leftovers()
            for key in self.keys():
                if total <= self.limit_bytes:
                    return
                if key == keep:
                    continue
                with suppress(OSError):
                    total -= self._path(key).stat().st_size
                self.remove(key)

    def _remove_leftovers(self) -> None:
        """Drop what writers that were killed left behind."""
        for path in self.folder.glob("??/.writing-*"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
                    path.unlink()


def _check_private(folder: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        status = folder.stat()
    except OSError:
        return  # made later, for its owner alone; or the first use says why it can't be
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IWOTH:
        raise UnusableStore(
            f"everybody may write to the artifact store {folder}, and what lies there would be run; "
            f"take that right away (chmod o-w), or choose another folder"
        )


def _encode(artifact: Artifact) -> bytes:
    header = {
        "meta": asdict(artifact.meta),
        "bytes": len(artifact.data),
        "sha256": hashlib.sha256(artifact.data).hexdigest(),
    }
    line = json.dumps(header, sort_keys=True).encode()
    return b"".join((_MAGIC, hashlib.sha256(line).hexdigest().encode(), b" ", line, b"\n", artifact.data))


def _decode(content: bytes) -> Artifact:
    if not content.startswith(_MAGIC):
        raise DamagedArtifact("it doesn't begin as an artifact does")
    line, newline, data = content[len(_MAGIC) :].partition(b"\n")
    checksum, _, text = line.partition(b" ")
    if not newline or hashlib.sha256(text).hexdigest().encode() != checksum:
        raise DamagedArtifact("its header is not what was written")
    header: Any = json.loads(text)
    if len(data) != header["bytes"]:
        raise DamagedArtifact(f"it holds {len(data)} of {header['bytes']} bytes")
    if hashlib.sha256(data).hexdigest() != header["sha256"]:
        raise DamagedArtifact("its content is not what was written")
    meta = header["meta"]
    meta["api_version"] = tuple(meta["api_version"])
    meta["assumptions"] = tuple(meta["assumptions"])
    return Artifact(ArtifactMeta(**meta), data)
