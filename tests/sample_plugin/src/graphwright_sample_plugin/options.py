"""The options of the backend `sample`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SampleOptions:
    """What users may set; unknown names and wrong types are refused before `compile` is called."""

    simplify: bool = True
    """Leave out operators that change nothing."""
    max_removed: int | None = None
    """Leave out so many at most; None means no limit."""
