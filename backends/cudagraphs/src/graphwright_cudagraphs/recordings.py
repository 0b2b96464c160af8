"""The recordings of one graph: one for each combination of sizes and numbers, up to a limit."""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from .inputs import Key
from .options import CudaGraphsOptions
from .outputs import OutputPlan
from .recorder import Tape

_REMEMBERED_PER_RECORDING = 8
"""For how many combinations of sizes the calls are counted, times `max_recordings`: some come once only."""


@dataclass(eq=False)
class Recording:
    """One recording with everything that it takes to replay it."""

    tape: Tape
    buffers: list[tuple[int, torch.Tensor]]
    """The inputs that are copied, and where to."""
    addresses: list[tuple[int, int]]
    """The static inputs, and where they lay."""
    outputs: OutputPlan
    reads: frozenset[int]
    """The storages of other recordings that it reads, by address."""


class Step(enum.Enum):
    """What a call does for which there is no recording."""

    WARM_UP = enum.auto()
    RECORD = enum.auto()
    RUN_IN_EAGER = enum.auto()


class Recordings:
    """Recordings by what they are for, the one last used at the end."""

    def __init__(self, options: CudaGraphsOptions) -> None:
        self._options = options
        self._by_key: OrderedDict[Key, Recording] = OrderedDict()
        self._calls: OrderedDict[Key, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Recording]:
        return iter(self._by_key.values())

    def find(self, key: Key) -> Recording | None:
        """The recording for a key, which counts as used now."""
        found = self._by_key.get(key)
        if found is not None:
            self._by_key.move_to_end(key)
        return found

    def next_step(self, sizes: Key) -> Step:
        """What to do in a call with these sizes and numbers."""
        if len(self) >= self._options.max_recordings and self._options.when_full == "eager":
            return Step.RUN_IN_EAGER
        return Step.WARM_UP if self._calls.get(sizes, 0) < self._options.warm_up_calls else Step.RECORD

    def count_warm_up(self, sizes: Key) -> None:
        """Note a warm-up with these sizes that went well."""
        self._calls[sizes] = self._calls.pop(sizes, 0) + 1
        while len(self._calls) > _REMEMBERED_PER_RECORDING * self._options.max_recordings:
            self._calls.popitem(last=False)

    def make_room(self) -> list[Recording]:
        """Take out what must go before one more comes in."""
        gone = []
        while len(self) >= self._options.max_recordings:
            gone.append(self._by_key.popitem(last=False)[1])
        return gone

    def add(self, key: Key, recording: Recording) -> None:
        """Keep a recording."""
        self._by_key[key] = recording

    def take_out(self, which: Callable[[Recording], bool]) -> list[Recording]:
        """Take out all recordings of a kind."""
        keys = [key for key, recording in self._by_key.items() if which(recording)]
        return [self._by_key.pop(key) for key in keys]
