"""Options of the backend `aot_eager`."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class AotEagerOptions:
    """How AOTAutograd makes the graphs that are then run in eager mode."""

    partition: Literal["default", "min_cut"] = "default"
    """How values to save for the backward are chosen: `"default"` saves what the forward made, `"min_cut"`
    recomputes to save memory."""
    decompositions: Literal["none", "core"] = "none"
    """Operators to break up: `"none"`, or `"core"` for those outside torch's core operator set."""
