"""Capture reads source lines for its reports, and leaves `linecache` as the program had it."""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Iterator
from typing import Any

_read: dict[str, Any] = {}
"""What was read from files, so that the next capture need not read them again."""


@contextlib.contextmanager
def own_line_cache() -> Iterator[None]:
    """While entered, files whose lines are asked for are noted apart from those that the program asked for."""
    of_program = linecache.cache
    known = {**_read, **of_program}
    linecache.cache = dict(known)
    try:
        yield
    finally:
        for name, entry in linecache.cache.items():
            if name not in known:  # the source of code that was made meanwhile is for everybody
                (of_program if name.startswith("<") else _read)[name] = entry
        linecache.cache = of_program
