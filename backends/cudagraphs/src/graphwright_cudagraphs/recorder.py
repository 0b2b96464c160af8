"""What records and replays: the interface, so that all decisions around it can be tried without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch

Run: TypeAlias = Callable[[list[Any]], Sequence[Any]]
"""Runs a graph operator by operator on the inputs in the list, which it empties."""


@dataclass(eq=False)
class Tape:
    """One recording: replayed, it reads the inputs where they lay and writes the outputs where they lie."""

    recorded: Any
    """What the recorder replays; None once it was freed."""


class Recorder(Protocol):
    """Records runs on one device into one pool of memory.

    Recordings of one pool share the memory of what they make on the way. So they are replayed one after the other, each
    within `in_order`, and what must outlive the next replay is among the outputs of its recording.
    """

    def warm_up(self, run: Run, inputs: list[Any]) -> Sequence[Any]:
        """Run once for the results and for what libraries set up the first time; its outputs belong to the caller."""
        ...

    def record(self, run: Run, inputs: list[Any], borrowed: frozenset[int]) -> tuple[Tape, list[Any]]:
        """Record a run. Nothing is computed, no input changes, no random number is drawn.

        Args:
            run: What to record.
            inputs: Its inputs, which replays read at the same addresses.
            borrowed: Which of them belong to the user: the recording knows their addresses, and keeps none alive.

        Returns:
            The recording, and the outputs: their values are there after a replay, and until the next one.
        """
        ...

    def in_order(self) -> AbstractContextManager[None]:
        """Keep what is put in and read out in this block apart from what earlier and later such blocks do."""
        ...

    def copy_in(self, buffer: torch.Tensor, value: torch.Tensor) -> None:
        """Put an input where the recording reads it, within `in_order`."""
        ...

    def replay(self, tape: Tape) -> None:
        """Compute the outputs of a recording from what lies where its inputs lay, within `in_order`."""
        ...

    def free(self, tape: Tape) -> None:
        """Give up a recording and its memory; outputs that somebody still holds stay as they are."""
        ...


RecorderFactory: TypeAlias = Callable[[torch.device], Recorder]
"""Makes the recorder, with its pool, for the graphs of one compilation."""
