"""The backend under test: with a recorder that needs no GPU."""

from __future__ import annotations

import pytest
import torch

from graphwright_cudagraphs import CudaGraphsBackend
from graphwright_cudagraphs.testing import SimulatedRecorder


@pytest.fixture
def recorders() -> list[SimulatedRecorder]:
    """The recorders that the backend made, one for each compiled graph that was recorded."""
    return []


@pytest.fixture
def backend(recorders: list[SimulatedRecorder]) -> CudaGraphsBackend:
    """The backend on CPU tensors."""

    def make_recorder(device: torch.device) -> SimulatedRecorder:
        recorders.append(SimulatedRecorder(device))
        return recorders[-1]

    return CudaGraphsBackend(make_recorder, device_type="cpu")
