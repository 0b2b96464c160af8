"""Changes to modules and objects of others that are taken back."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final

_MISSING: Final = object()


class Patches:
    """A context in which attributes are others than before, until it ends.

    What is put where something inherited or nothing was is deleted again, so that nothing stays behind.
    """

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute, or make one."""
        self._undo.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def __enter__(self) -> Patches:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        while self._undo:
            owner, name, before = self._undo.pop()
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
