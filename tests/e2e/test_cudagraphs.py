"""Whole programs on the backend `cudagraphs`, recorded in simulation, against eager."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphwright
from graphwright import events

cudagraphs = pytest.importorskip("graphwright_cudagraphs")
testing = pytest.importorskip("graphwright_cudagraphs.testing")
pytestmark = pytest.mark.e2e


@pytest.fixture
def recorders() -> list[Any]:
    return []


@pytest.fixture
def backend(recorders: list[Any]) -> Any:
    def make_recorder(device: torch.device) -> Any:
        recorders.append(testing.SimulatedRecorder(device))
        return recorders[-1]

    return cudagraphs.CudaGraphsBackend(make_recorder, device_type="cpu")


class Net(nn.Module):
    """Buffers that forward writes to, running statistics, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return self.second(F.dropout(self.norm(self.first(x)).relu(), 0.3, self.training))


def train(model: Any, batches: list[torch.Tensor]) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    losses = []
    for number, batch in enumerate(batches):
        torch.manual_seed(number)
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_training_then_inference_equals_eager(backend: Any, recorders: list[Any]) -> None:
    torch.manual_seed(0)
    plain = Net()
    model = copy.deepcopy(plain)
    compiled = graphwright.compile(model, backend=backend, fullgraph=True)
    batches = [torch.randn(rows, 4) for rows in (5, 5, 5, 7, 6, 5, 7, 6, 6)]
    torch.testing.assert_close(train(compiled, batches), train(plain, batches))
    torch.testing.assert_close(dict(model.state_dict()), dict(plain.state_dict()))
    plain.eval()
    model.eval()
    with torch.inference_mode():
        kept = [(compiled(batch), plain(batch)) for batch in batches]
    for actual, expected in kept:
        torch.testing.assert_close(actual, expected)
    assert model.calls.item() == plain.calls.item() == 18
    assert sum(recorder.log.count("replay") for recorder in recorders) >= 10


def test_a_reset_frees_the_recordings(backend: Any, recorders: list[Any]) -> None:
    compiled = graphwright.compile(lambda x: x * 2 + 1, backend=backend)
    for _ in range(3):
        compiled(torch.ones(3))
    assert [recorder.tapes for recorder in recorders] == [1]
    tapes = [weakref.ref(value) for value in gc.get_objects() if type(value).__name__ == "Tape"]
    assert tapes
    graphwright.reset()
    gc.collect()
    assert not any(tape() for tape in tapes)


def test_what_cannot_be_recorded_is_told_and_runs(backend: Any, recorders: list[Any]) -> None:
    def picked(x: torch.Tensor) -> torch.Tensor:
        return x.sin().sum() * torch.linalg.inv_ex(x, check_errors=True).inverse

    with events.collected(events.GraphLeftToEager) as told:
        compiled = graphwright.compile(picked, backend=backend)
        x = torch.eye(3) * 2
        torch.testing.assert_close(compiled(x), picked(x))
    assert recorders == []
    (event,) = told
    assert "cannot be recorded as a CUDA graph" in str(event.error)
    assert "aten.linalg_inv_ex" in str(event.error)
