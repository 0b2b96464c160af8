"""Names in messages: suggestions for those that don't exist, and what a backend is called."""

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


def backend_in_words(name: str, distribution: str | None = None, version: str | None = None) -> str:
    """A backend as messages call it: `backend 'name' of some-package 1.0`."""
    return f"backend {name!r}" + (f" of {distribution} {version}" if distribution else "")


def raised(error: BaseException) -> str:
    """What was raised, as type and message, also where the exception fails to print itself."""
    try:
        return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    except Exception:  # noqa: BLE001  a plugin's exception
        return type(error).__name__
