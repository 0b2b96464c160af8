"""The stream that hands events to those who subscribed."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeAlias

from graphwright.events.base import Event
from graphwright.events.capture import FrameFinished, GraphBroke, GraphCompiled, InstructionTraced

_log = logging.getLogger(__name__)
Subscriber: TypeAlias = Callable[[Event], object]


class EventStream:
    """Hands every event to every subscriber, in the emitting thread, in order of subscription."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers: tuple[tuple[Subscriber, frozenset[type[Event]] | None], ...] = ()
        self._counts: Counter[str] = Counter()
        self._seconds: dict[str, float] = {"total": 0.0, "backend": 0.0}

    def renew_lock(self) -> None:
        """Have a free lock, in a child process forked while another thread held it."""
        self._lock = threading.Lock()

    def subscribe(self, callback: Subscriber, *kinds: type[Event]) -> None:
        """Call `callback` with every event from now on.

        Args:
            callback: Takes one event. What it raises is logged and goes no further: an observer never changes what
                the program does.
            *kinds: Event classes to be told of; all but `InstructionTraced` when none is given.
        """
        wanted = frozenset(kinds) if kinds else None
        with self._lock:
            self._subscribers = (*self._subscribers, (callback, wanted))

    def unsubscribe(self, callback: Subscriber) -> None:
        """Stop calling `callback`; nothing happens if it is not subscribed."""
        with self._lock:
            self._subscribers = tuple(pair for pair in self._subscribers if pair[0] != callback)

    def wants(self, kind: type[Event]) -> bool:
        """Whether a subscriber asked for this class of events by name; for events that cost time to make."""
        return any(wanted is not None and kind in wanted for _, wanted in self._subscribers)

    def is_heard(self, kind: type[Event]) -> bool:
        """Whether a subscriber would be told of an event of this class."""
        return any(wanted is None or kind in wanted for _, wanted in self._subscribers)

    def emit(self, event: Event) -> None:
        """Count an event and tell the subscribers."""
        kind = type(event)
        if kind is not InstructionTraced:
            self._count(event)
        for callback, wanted in self._subscribers:
            if (kind is not InstructionTraced) if wanted is None else (kind in wanted):
                self._tell(callback, event)

    def _count(self, event: Event) -> None:
        with self._lock:
            self._counts[type(event).__name__] += 1
            if isinstance(event, GraphBroke):
                self._counts[event.gw_id] += 1
            elif isinstance(event, GraphCompiled):
                self._seconds["backend"] += event.seconds
            elif isinstance(event, FrameFinished):
                self._seconds["total"] += event.seconds

    @staticmethod
    def _tell(callback: Subscriber, event: Event) -> None:
        try:
            callback(event)
        except Exception:  # noqa: BLE001  an observer's bug is not the program's
            _log.exception("subscriber %r failed on %s", callback, type(event).__name__)

    def counters(self) -> dict[str, int]:
        """How many events of each class there were, by class name, and how many graph breaks by id."""
        with self._lock:
            return dict(self._counts)

    def compile_times(self) -> dict[str, float]:
        """Seconds spent capturing (`"total"`), and the part of it spent in backends (`"backend"`)."""
        with self._lock:
            return dict(self._seconds)

    def reset_counters(self) -> None:
        """Start counting from zero."""
        with self._lock:
            self._counts.clear()
            self._seconds = dict.fromkeys(self._seconds, 0.0)

    @contextlib.contextmanager
    def collected(self, *kinds: type[Event]) -> Iterator[list[Event]]:
        """A list that fills with the events this thread emits inside the `with` block."""
        found: list[Event] = []
        thread = threading.get_ident()

        def keep(event: Event) -> None:
            if threading.get_ident() == thread:
                found.append(event)

        self.subscribe(keep, *kinds)
        try:
            yield found
        finally:
            self.unsubscribe(keep)


STREAM = EventStream()
"""The one stream of the process."""
os.register_at_fork(after_in_child=STREAM.renew_lock)
