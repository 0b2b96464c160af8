"""What became of each look into the artifact store: told to whoever wants to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

CacheResult: TypeAlias = Literal["hit", "miss", "saved", "not_cached", "rejected", "not_saved"]
"""`"hit"`: loaded, nothing was compiled. `"miss"`: there was none, so the graph is compiled. `"saved"`: what was
compiled is in the store. `"not_cached"`: it can't be, for a reason that is no fault. `"rejected"`: something is wrong:
an artifact is damaged, doesn't fit or doesn't load, or the store can't be used; the graph is compiled. `"not_saved"`:
something is wrong with saving what was compiled, which is used all the same."""


@dataclass(frozen=True)
class CacheOutcome:
    """What became of one look into the store, or of one attempt to save."""

    result: CacheResult
    """What happened."""
    backend: str
    """The backend's name."""
    key: str = ""
    """The artifact's key; empty where none could be made."""
    reason: str = ""
    """Why, as a clause; empty for a hit and for what was saved."""
    n_bytes: int = 0
    """Size of the artifact that was loaded or saved."""
    seconds: float = 0.0
    """What looking and loading took, or saving."""


CacheListener: TypeAlias = Callable[[CacheOutcome], None]
"""Called with each outcome, in the thread that compiles."""

_listeners: list[CacheListener] = []  # filled by the framework when it is imported


def tell_outcome(outcome: CacheOutcome) -> None:
    """Hand an outcome to every listener."""
    for listener in tuple(_listeners):
        listener(outcome)


def listen_to_cache(listener: CacheListener) -> Callable[[], None]:
    """Have a function called with every outcome. Adding a listener again changes nothing.

    Returns:
        A function that ends it.
    """

    def end() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    if listener not in _listeners:
        _listeners.append(listener)
    return end
