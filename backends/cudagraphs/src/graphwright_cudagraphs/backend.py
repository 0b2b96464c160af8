"""The backend `cudagraphs`."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins import Capabilities, CompiledGraph, Unavailable
from graphwright_plugins.torch_compat import TORCH_VERSION

from .compiling import CompiledCudaGraphs, compile_graph
from .cuda_recorder import CudaRecorder
from .options import CudaGraphsOptions
from .recorder import RecorderFactory


class CudaGraphsBackend:
    """Records graphs of operators as CUDA graphs and replays them, which saves the time to launch each operator.

    Args:
        make_recorder: Makes what records and replays; tests give one that needs no GPU.
        device_type: The type of the devices that it records on.
    """

    name: Final = "cudagraphs"
    options_type: Final = CudaGraphsOptions
    api_version: Final = (1, 0)

    def __init__(self, make_recorder: RecorderFactory = CudaRecorder, device_type: str = "cuda") -> None:
        # Graphs on the CPU are taken too: they run as they are, which is told, and is no failure.
        self.capabilities: Final = Capabilities(devices=frozenset({device_type, "cpu"}))
        self._make_recorder = make_recorder
        self._device_type = device_type
        self._compiled: weakref.WeakSet[CompiledCudaGraphs] = weakref.WeakSet()

    def available(self) -> Unavailable | None:
        """Say whether there is a device to record on."""
        return why_no_cuda() if self._device_type == "cuda" else None

    def compile(
        self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: CudaGraphsOptions
    ) -> CompiledGraph:
        """Compile a graph; what is recorded is decided call by call."""
        compiled = compile_graph(graph, example_inputs, options, self._device_type, self._make_recorder)
        self._compiled.add(compiled)
        return compiled

    def close(self) -> None:
        """Free the recordings of all compiled graphs that are still in use; they run in eager from then on."""
        for compiled in list(self._compiled):
            compiled.close()


def why_no_cuda() -> Unavailable | None:
    """What keeps CUDA graphs from being recorded here, or None."""
    if torch.version.cuda is None and torch.version.hip is None:
        return Unavailable(
            f"this torch ({TORCH_VERSION}) was built without CUDA",
            "Install a CUDA build of torch (see https://pytorch.org/get-started/locally), or choose another backend.",
        )
    if not torch.cuda.is_available():
        return Unavailable(
            "no CUDA device was found",
            "See whether `nvidia-smi` lists one and CUDA_VISIBLE_DEVICES does not hide it, or choose another backend.",
        )
    return None


cudagraphs = CudaGraphsBackend()
