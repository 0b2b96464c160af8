"""Finding a plugin's data file next to its code, which is not run for it."""

import importlib.machinery
import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

MANIFEST_NAME: Final = "graphwright_plugin.toml"
"""The file's name. It lies in the top-level package of the module that the entry point names, or in a package on the
way to that module: the nearest to the module counts, as namespace packages belong to several distributions."""


def find_manifest_file(target: str) -> tuple[str, bytes] | None:
    """Path and content of the data file of what an entry point names, or None where there is none.

    Args:
        target: `module:attribute`.

    Raises:
        OSError: The file is there and can't be read.
    """
    top, *below = target.partition(":")[0].strip().split(".")
    try:
        spec = importlib.util.find_spec(top)  # a name without dots: nothing is imported for it
    except (ImportError, ValueError):  # a finder's trouble, or a module without a spec: importing it will tell
        return None
    read = _reader(spec)
    for path in _candidates(spec, below):
        try:
            return path, read(path)
        except OSError:
            if Path(path).exists():
                raise
    return None


def _candidates(spec: importlib.machinery.ModuleSpec | None, below: list[str]) -> Iterator[str]:
    """Where the file may lie, the place nearest to the module first."""
    folders = list((spec and spec.submodule_search_locations) or ())
    for depth in range(len(below), -1, -1):
        for folder in folders:
            yield os.path.join(folder, *below[:depth], MANIFEST_NAME)


def _reader(spec: importlib.machinery.ModuleSpec | None) -> Callable[[str], bytes]:
    """What reads a file next to a package's code: the package's loader where it can, as in a ZIP archive."""
    get_data: Callable[[str], bytes] | None = getattr(spec and spec.loader, "get_data", None)
    return get_data or (lambda path: Path(path).read_bytes())
