from __future__ import annotations

import logging
import threading

import pytest

from graphwright import events
from graphwright.events import EventStream, FrameFinished, FrameSkipped, FrameStarted, GraphBroke, InstructionTraced
from graphwright.exc import CodeLocation
from graphwright.graph_breaks import PRINTING


def test_subscribers_hear_in_order_until_they_leave() -> None:
    stream, heard = EventStream(), []

    def first(event: events.Event) -> None:
        heard.append((1, event))

    stream.subscribe(first)
    stream.subscribe(lambda event: heard.append((2, event)))
    event = FrameStarted(function="f")
    stream.emit(event)
    stream.unsubscribe(first)
    stream.emit(event)
    assert heard == [(1, event), (2, event), (2, event)]


def test_subscribing_to_some_kinds() -> None:
    stream, heard = EventStream(), []
    stream.subscribe(heard.append, FrameSkipped)
    skipped = FrameSkipped(function="f", reason="no")
    stream.emit(FrameStarted(function="f"))
    stream.emit(skipped)
    assert heard == [skipped]


def test_costly_events_only_for_those_who_ask_by_name() -> None:
    stream, heard, asked = EventStream(), [], []
    stream.subscribe(heard.append)
    assert not stream.wants(InstructionTraced)
    stream.subscribe(asked.append, InstructionTraced)
    assert stream.wants(InstructionTraced)
    stream.emit(InstructionTraced(instruction="NOP"))
    assert (len(heard), len(asked)) == (0, 1)


def test_a_failing_subscriber_is_logged_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    stream, heard = EventStream(), []

    def broken(event: events.Event) -> None:
        raise ValueError("mine")

    stream.subscribe(broken)
    stream.subscribe(heard.append)
    with caplog.at_level(logging.ERROR, "graphwright.events"):
        stream.emit(FrameStarted(function="f"))
    assert len(heard) == 1
    assert "broken" in caplog.text
    assert "mine" in caplog.text


def test_counters_and_times() -> None:
    stream = EventStream()
    stream.emit(GraphBroke(kind=PRINTING, detail="print(x)"))
    stream.emit(FrameFinished(function="f", outcome="compiled", seconds=0.5))
    stream.emit(FrameFinished(function="f", outcome="compiled", seconds=0.25))
    assert stream.counters() == {"GraphBroke": 1, "GW0012": 1, "FrameFinished": 2}
    assert stream.compile_times() == {"total": 0.75, "backend": 0.0}
    stream.reset_counters()
    assert stream.counters() == {}


def test_collected_holds_what_this_thread_emitted() -> None:
    stream = EventStream()
    with stream.collected(FrameStarted) as found:
        stream.emit(FrameStarted(function="here"))
        other = threading.Thread(target=lambda: stream.emit(FrameStarted(function="there")))
        other.start()
        other.join()
    stream.emit(FrameStarted(function="later"))
    assert [event.function for event in found if isinstance(event, FrameStarted)] == ["here"]


def test_graph_break_words() -> None:
    event = GraphBroke(kind=PRINTING, detail="print(x)", location=CodeLocation("f.py", 3, "f", "print(x)"))
    assert (event.gw_id, event.reason) == ("GW0012", "printing, logging or warning: print(x)")
    assert event.remedy == PRINTING.remedy


def test_whether_a_kind_is_heard() -> None:
    stream = EventStream()
    assert not stream.is_heard(FrameSkipped)
    stream.subscribe(print, FrameStarted)
    assert not stream.is_heard(FrameSkipped)
    stream.subscribe(repr)
    assert stream.is_heard(FrameSkipped)
