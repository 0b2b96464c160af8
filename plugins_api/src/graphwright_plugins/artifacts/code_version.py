"""Tells two states of a backend's code apart where its version does not: in packages installed for development."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Final

_CODE: Final = frozenset({".py", ".so", ".pyd", ".dylib", ".cu", ".cpp", ".h"})


@functools.cache
def code_version(module: str, distribution: str | None) -> str:
    """A text that changes with the backend's code, or an empty one where its version already tells.

    Files count by name, size and time. That is read once in a process, which has its modules from then.

    Args:
        module: A module of the backend; its top package is looked at.
        distribution: The distribution it came from; None where it came from none.
    """
    editable = [name for name in (distribution, "graphwright-plugins") if name is not None and _is_editable(name)]
    folders = [
        _folder(module.partition(".")[0]) if name == distribution else Path(__file__).parent for name in editable
    ]
    if distribution is None:
        folders.append(_folder(module.partition(".")[0]))
    facts = [_facts(path) for folder in folders if folder is not None for path in sorted(folder.rglob("*"))]
    facts = [fact for fact in facts if fact]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest() if facts else ""


def _is_editable(distribution: str) -> bool:
    try:
        text = importlib.metadata.distribution(distribution).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return False
    return bool(text and json.loads(text).get("dir_info", {}).get("editable"))


def _folder(package: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # "__main__", or a module made by hand
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _facts(path: Path) -> str:
    if path.suffix not in _CODE:
        return ""
    try:
        status = path.stat()
    except OSError:  # it went meanwhile
        return ""
    return f"{path.name} {status.st_size} {status.st_mtime_ns}"
