"""What all events have, and how a place in the user's code is shown."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Sequence
from dataclasses import dataclass

from graphwright.exc import CodeLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base class of all events."""

    location: CodeLocation | None = None
    """Where in the user's code; None where no single place is meant."""
    compile_id: str = ""
    """Which capture this belongs to, the same in all its events; empty outside of captures."""


def source_line(location: CodeLocation | None) -> str:
    """The line of source at a place, stripped; empty where it cannot be read."""
    if location is None:
        return ""
    return (location.text or linecache.getline(location.filename, location.line)).strip()


def shown_stack(places: Sequence[CodeLocation]) -> list[str]:
    """The lines that show a stack, outermost call first; a place that repeats is shown once, with a count."""
    lines = []
    for place, group in itertools.groupby(places):
        lines.append(f"{place} in {place.function}: {source_line(place)}")
        repeated = len(list(group)) - 1
        if repeated:
            lines.append(f"... {repeated} more calls at the same place")
    return lines
