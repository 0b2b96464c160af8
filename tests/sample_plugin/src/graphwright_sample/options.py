"""Options of the backend `sample`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SampleOptions:
    """What a user may write in `graphwright.compile(..., options={...})`."""

    most_calls: int = 10_000
    """The largest number of calls a graph may have."""
