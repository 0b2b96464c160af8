"""Suggestions for names that don't exist."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names most like this one, nearest first."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    return [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence that suggests the nearest names, or an empty string; begins with a space."""
    names = nearest(name, known)
    return f" Did you mean {' or '.join(map(repr, names))}?" if names else ""


def listing(names: Iterable[str]) -> str:
    """Names in order, quoted; `none` when there are none."""
    return ", ".join(map(repr, sorted(names))) or "none"
