"""What the graphs of one compilation share: the recorder with its pool, a lock, and what the forward graph lent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import torch

from .inputs import Handling
from .notices import Notices
from .recorder import Recorder, RecorderFactory
from .recordings import Recording


class Memory:
    """The memory of one compilation.

    Args:
        make_recorder: Makes the recorder when the first graph is to be recorded.
        notices: Where reasons are told.
    """

    def __init__(self, make_recorder: RecorderFactory, notices: Notices) -> None:
        self.lock = threading.RLock()
        """Held from when inputs are put in until outputs are read: another thread's call comes after that."""
        self.notices = notices
        self.saved: Mapping[int, Handling] = {}
        """What became of the forward graph's outputs that the backward graph is given; empty until it is recorded."""
        self.saves = False
        """Whether the forward graph is one that is recorded, and saves something."""
        self.is_closed = False
        self._make_recorder = make_recorder
        self._recorder: Recorder | None = None
        self._lent: set[int] = set()
        self._drop_readers: list[Callable[[frozenset[int]], None]] = []

    def recorder(self, device: torch.device) -> Recorder:
        """The recorder; all graphs of one compilation are on one device."""
        if self._recorder is None:
            self._recorder = self._make_recorder(device)
        return self._recorder

    def is_lent(self, storage_address: int) -> bool:
        """Whether a storage belongs to a recording that is kept, and is lent to the backward graph."""
        return storage_address in self._lent

    def lend(self, recording: Recording) -> None:
        """Note what a new recording lends."""
        self._lent.update(lease.address for lease in recording.outputs.leases)

    def free(self, recording: Recording) -> None:
        """Give up a recording that is in no table any more, and those that read what it lent."""
        addresses = frozenset(lease.address for lease in recording.outputs.leases)
        self._lent -= addresses
        if addresses:
            for drop in self._drop_readers:
                drop(addresses)
        if self._recorder is not None:
            self._recorder.free(recording.tape)
        recording.buffers.clear()
        recording.outputs = type(recording.outputs)()

    def when_lenders_go(self, drop: Callable[[frozenset[int]], None]) -> None:
        """Have a function called with the addresses of storages that are lent no more."""
        self._drop_readers.append(drop)
