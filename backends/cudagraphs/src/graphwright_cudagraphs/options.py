"""Options of the backend `cudagraphs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class CudaGraphsOptions:
    """When graphs are recorded, how many recordings are kept, and what is handed out."""

    warm_up_calls: int = 1
    """How many calls with new sizes run operator by operator before the next one is recorded. At least one: libraries
    set themselves up and choose their kernels in it, which a recording must not do."""
    max_recordings: int = 8
    """How many recordings each graph keeps, one for each combination of sizes and numbers."""
    when_full: Literal["eager", "replace"] = "eager"
    """What becomes of new sizes beyond `max_recordings`: `"eager"` runs them operator by operator, with a warning;
    `"replace"` records them in the place of the recording that was not used for longest."""
    clone_outputs: bool = True
    """Give results out in memory of their own. False gives them out where the recording wrote them, which saves a copy:
    calls made while an earlier call's results are still in use then run operator by operator, with a warning."""
    partition: Literal["default", "min_cut"] = "default"
    """How values to save for the backward are chosen: `"default"` saves what the forward made, `"min_cut"`
    recomputes to save memory."""

    def __post_init__(self) -> None:
        for name in ("warm_up_calls", "max_recordings"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
