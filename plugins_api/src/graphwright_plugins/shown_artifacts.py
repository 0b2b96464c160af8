"""What backends make on the way, such as generated source: shown to whoever wants to see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

ArtifactKind: TypeAlias = Literal["aot_graphs", "output_code"]
"""The forward and backward graphs of AOTAutograd, or generated source."""

ArtifactListener: TypeAlias = Callable[[str, str, Callable[[], str]], None]
"""Called with the kind of an artifact, its name, and what gives its text, which may take time, then and there."""

_listeners: list[ArtifactListener] = []  # filled by the framework when it is imported


def show_artifact(kind: ArtifactKind, name: str, text: str | Callable[[], str]) -> None:
    """Show something the backend made while compiling; the user sees it by `GRAPHWRIGHT_LOGS=<kind>`.

    Args:
        kind: What it is, the name of the log it goes to.
        name: Which one it is, in a few words: `"backward graph"`.
        text: The whole of it; or what gives that, called only where somebody wants to see it.
    """

    def give() -> str:
        return text if isinstance(text, str) else text()

    for listener in tuple(_listeners):
        listener(kind, name, give)


def listen_to_artifacts(listener: ArtifactListener) -> None:
    """Have a function called with every artifact that a backend shows. Adding a listener again changes nothing."""
    if listener not in _listeners:
        _listeners.append(listener)
