"""What the real recorder asks of CUDA, and in which order: on a stand-in for `torch.cuda` that writes it down."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from graphwright_cudagraphs.cuda_recorder import CudaRecorder

DEVICE = torch.device("cuda:0")


class FakeStream:
    def __init__(self, cuda: FakeCuda, name: str) -> None:
        self.cuda, self.name = cuda, name

    def wait_stream(self, other: FakeStream) -> None:
        self.cuda.log.append(f"{self.name} waits for {other.name}")

    def wait_event(self, event: FakeEvent) -> None:
        self.cuda.log.append(f"{self.name} waits for an event on {event.on}")


class FakeEvent:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda, self.on = cuda, ""

    def record(self, stream: FakeStream) -> None:
        self.on = stream.name


class FakeGraph:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda = cuda

    def replay(self) -> None:
        self.cuda.log.append(f"replay on {self.cuda.current.name}")

    def reset(self) -> None:
        self.cuda.log.append("reset")


class FakeCuda:
    """Has what the recorder uses of `torch.cuda`."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.current = FakeStream(self, "main")
        self.pools = 0

    def Stream(self, device: torch.device) -> FakeStream:
        return FakeStream(self, "side")

    def Event(self) -> FakeEvent:
        return FakeEvent(self)

    def CUDAGraph(self) -> FakeGraph:
        return FakeGraph(self)

    def current_stream(self, device: torch.device) -> FakeStream:
        return self.current

    def graph_pool_handle(self) -> int:
        self.pools += 1
        return self.pools

    def synchronize(self, device: torch.device) -> None:
        self.log.append("synchronize")

    @contextlib.contextmanager
    def device(self, device: torch.device) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    @contextlib.contextmanager
    def graph(self, graph: FakeGraph, *, pool: int, stream: FakeStream, capture_error_mode: str) -> Iterator[None]:
        self.log.append(f"capture into pool {pool} on {stream.name}, {capture_error_mode}")
        with self.stream(stream):
            yield
        self.log.append("captured")


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda()


@pytest.fixture
def recorder(cuda: FakeCuda) -> CudaRecorder:
    return CudaRecorder(DEVICE, cuda)


def run_on(cuda: FakeCuda) -> Any:
    def run(inputs: list[Any]) -> list[Any]:
        cuda.log.append(f"run on {cuda.current.name}")
        inputs.clear()
        return [3]

    return run


def test_the_warm_up_runs_on_the_stream_of_the_recording(cuda: FakeCuda, recorder: CudaRecorder) -> None:
    assert recorder.warm_up(run_on(cuda), [1]) == [3]
    assert cuda.log == ["side waits for main", "run on side", "main waits for side"]


def test_recordings_share_a_pool_as_long_as_there_are_any(cuda: FakeCuda, recorder: CudaRecorder) -> None:
    inputs = [1]
    first, outputs = recorder.record(run_on(cuda), inputs, frozenset())
    assert outputs == [3]
    assert inputs == [1]
    second, _ = recorder.record(run_on(cuda), inputs, frozenset())
    recorder.free(first)
    recorder.free(first)
    third, _ = recorder.record(run_on(cuda), inputs, frozenset())
    recorder.free(second)
    recorder.free(third)
    recorder.record(run_on(cuda), inputs, frozenset())
    captured = [line for line in cuda.log if line.startswith("capture ")]
    assert captured == [f"capture into pool {pool} on side, thread_local" for pool in (1, 1, 1, 2)]
    assert cuda.log.count("reset") == cuda.log.count("synchronize") == 3


def test_a_replay_on_another_stream_waits_for_the_last_one(cuda: FakeCuda, recorder: CudaRecorder) -> None:
    tape, _ = recorder.record(run_on(cuda), [], frozenset())
    cuda.log.clear()
    for name in ("main", "main", "other"):
        cuda.current = cuda.current if cuda.current.name == name else FakeStream(cuda, name)
        with recorder.in_order():
            recorder.replay(tape)
    assert cuda.log == ["replay on main", "replay on main", "other waits for an event on main", "replay on other"]


def test_an_input_is_copied_to_its_place(recorder: CudaRecorder) -> None:
    buffer = torch.zeros(2, 3)
    recorder.copy_in(buffer, torch.ones(2, 3))
    assert buffer.sum() == 6
