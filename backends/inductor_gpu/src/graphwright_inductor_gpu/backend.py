"""The backend `inductor_gpu`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import fx

import graphwright_inductor_gpu.artifacts as artifacts
from graphwright_plugins import ArtifactMeta, Capabilities, CompiledGraph, GraphForm, Tolerance, Unavailable

from .availability import why_unavailable
from .lowering import compile_graph
from .options import MODES, InductorOptions
from .torch_compat import free_cuda_graphs


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

    def __init__(self) -> None:
        self._records = False

    def available(self) -> Unavailable | None:
        """Say what is missing, a C++ compiler or Triton, and how to get it."""
        return why_unavailable()

    def graph_form(self, options: InductorOptions) -> GraphForm:
        """Graphs as they were captured; with `freezing`, weights are constants of theirs."""
        return GraphForm(weights="frozen" if options.freezing else "inputs")

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: InductorOptions) -> CompiledGraph:
        """Compile a graph, and its backward graph when the first backward pass runs at the latest."""
        self._records = self._records or bool(options.cudagraphs)
        return compile_graph(graph, example_inputs, options)

    def cache_key_parts(self, options: InductorOptions) -> Mapping[str, str]:
        """Inductor's settings and code, compilers, processor and GPU."""
        return artifacts.key_parts(options)

    def save(self, compiled: CompiledGraph) -> bytes:
        """The generated code, the backward graph's too, and what stands around it."""
        return artifacts.save(compiled)

    def load(self, data: bytes, options: InductorOptions) -> CompiledGraph:
        """Make a compiled graph again, by Inductor's own cache of compiled kernels."""
        return artifacts.load(data, options)

    def compatible(self, meta: ArtifactMeta) -> str | None:
        """Everything is in the key, so that what is found fits."""
        return None

    def close(self) -> None:
        """Free the CUDA graphs that were recorded: all of Inductor's, those of torch.compile's functions as well."""
        if self._records:
            free_cuda_graphs()
            self._records = False


inductor_gpu = InductorBackend()
