"""What did not run from a recording, and why: warned of once for each reason, and kept for a look at any time."""

from __future__ import annotations

import warnings
from typing import NamedTuple


class CudaGraphsWarning(UserWarning):
    """Something that could have been replayed from a CUDA graph runs operator by operator."""


class Notice(NamedTuple):
    """One reason."""

    kind: str
    """A word or two that name the reason: `"max_recordings"`."""
    text: str
    """What runs in eager, why, and what to do."""


class Notices:
    """The reasons of one compilation."""

    def __init__(self) -> None:
        self._by_kind: dict[tuple[str, str], Notice] = {}

    def tell(self, part: str, kind: str, text: str) -> None:
        """Warn of a reason unless it was told of the same graph before.

        Args:
            part: Which graph: `"forward graph"`.
            kind: The reason in a word or two.
            text: What runs in eager, why, and what to do.
        """
        if (part, kind) in self._by_kind:
            return
        notice = Notice(kind, f"cudagraphs: the {part} {text}")
        self._by_kind[part, kind] = notice
        warnings.warn(notice.text, CudaGraphsWarning, stacklevel=2)

    def all(self) -> tuple[Notice, ...]:
        """All that were told, the first one first."""
        return tuple(self._by_kind.values())
