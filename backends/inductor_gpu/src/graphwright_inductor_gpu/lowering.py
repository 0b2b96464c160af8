"""From a captured graph to compiled kernels: makes the graph one that Inductor takes, and shows what it generated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from graphwright_plugins import CompiledGraph, compile_context, show_artifact
from graphwright_plugins.torch_compat import as_fake
from graphwright_plugins.unused_results import first_results, with_unused_results

from .options import InductorOptions, to_config
from .torch_compat import compile_fx


def compile_graph(graph: fx.GraphModule, example_inputs: Sequence[Any], options: InductorOptions) -> CompiledGraph:
    """Compile a graph by Inductor, in the caller's tracing context or one of its own.

    Operations whose results nobody uses stay: they may draw random numbers, or fail.
    """
    with compile_context(example_inputs) as fake_mode:
        inputs = [as_fake(fake_mode, value) for value in example_inputs]
        complete, count = with_unused_results(graph, inputs, fake_mode)
        compiled = compile_fx(complete, inputs, to_config(options), _show_code)
    return compiled if complete is graph else first_results(compiled, count)


def _show_code(name: str, text: str) -> None:
    show_artifact("output_code", name, text)
