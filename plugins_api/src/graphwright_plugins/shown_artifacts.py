"""What backends make on the way, such as generated source: shown to whoever wants to see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, get_args

from .errors import DeclarationError
from .naming import did_you_mean, listing

ArtifactKind: TypeAlias = Literal["aot_graphs", "output_code"]
"""The forward and backward graphs of AOTAutograd, or generated source."""

_KINDS: Final[tuple[str, ...]] = get_args(ArtifactKind)

ArtifactListener: TypeAlias = Callable[[str, str, Callable[[], str]], None]
"""Called with the kind of an artifact, its name, and what gives its text, which may take time, then and there."""

_listeners: list[ArtifactListener] = []  # filled by the framework when it is imported


def show_artifact(kind: ArtifactKind, name: str, text: str | Callable[[], str]) -> None:
    """Show something the backend made while compiling; the user sees it by `GRAPHWRIGHT_LOGS=<kind>`.

    Args:
        kind: What it is, the name of the log it goes to.
        name: Which one it is, in a few words: `"backward graph"`.
        text: The whole of it; or what gives that, called only where somebody wants to see it.

    Raises:
        DeclarationError: (a ValueError) There is no such kind, the name is no text, or the text neither that nor a
            function.
    """
    _check(kind, name, text)

    def give() -> str:
        return text if isinstance(text, str) else text()

    for listener in tuple(_listeners):
        listener(kind, name, give)


def _check(kind: object, name: object, text: object) -> None:
    if not (isinstance(kind, str) and kind in _KINDS):
        near = did_you_mean(kind, _KINDS) if isinstance(kind, str) else ""
        raise DeclarationError(
            f"show_artifact has no kind {kind!r}, so nobody would see {name!r}.{near} The kinds are: {listing(_KINDS)}."
        )
    if not isinstance(name, str):
        raise DeclarationError(f"show_artifact has the name {name!r}; it must be a text such as 'backward graph'")
    if not isinstance(text, str) and not callable(text):
        raise DeclarationError(
            f"show_artifact was given a {type(text).__name__} for {name!r}; it must be a text, or a function without "
            "arguments that gives it"
        )


def listen_to_artifacts(listener: ArtifactListener) -> None:
    """Have a function called with every artifact that a backend shows. Adding a listener again changes nothing."""
    if listener not in _listeners:
        _listeners.append(listener)
