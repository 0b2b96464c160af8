"""The backend `inductor_gpu`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins import Capabilities, CompiledGraph, Tolerance, Unavailable

from .availability import why_unavailable
from .lowering import compile_graph
from .options import MODES, InductorOptions


class InductorBackend:
    """Compiles graphs by Inductor: Triton kernels on CUDA devices, C++ on the CPU."""

    name: Final = "inductor_gpu"
    capabilities: Final = Capabilities(
        devices=frozenset({"cpu", "cuda"}),
        tolerances={torch.float16: Tolerance(5e-3, 5e-3), torch.bfloat16: Tolerance(2e-2, 2e-2)},
    )
    options_type: Final = InductorOptions
    modes: Final = MODES
    api_version: Final = (1, 0)

    def available(self) -> Unavailable | None:
        """Say what is missing, a C++ compiler or Triton, and how to get it."""
        return why_unavailable()

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: InductorOptions) -> CompiledGraph:
        """Compile a graph, and its backward graph when the first backward pass runs at the latest."""
        return compile_graph(graph, example_inputs, options)


inductor_gpu = InductorBackend()
