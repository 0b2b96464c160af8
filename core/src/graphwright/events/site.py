"""Which capture of which function events belong to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphwright.events.base import Event
from graphwright.events.stream import STREAM
from graphwright.exc import CodeLocation


@dataclass(frozen=True)
class CaptureSite:
    """One capture of one function.

    Attributes:
        function: the qualified name of the function, or of the resume function.
        location: where the function begins.
        compile_id: the number of the capture.
    """

    function: str
    location: CodeLocation
    compile_id: str

    def tell(self, event: Callable[..., Event], /, **fields: Any) -> None:
        """Emit an event of this capture; it lies where the function begins, if `fields` do not say otherwise."""
        fields.setdefault("location", self.location)
        STREAM.emit(event(compile_id=self.compile_id, **fields))
