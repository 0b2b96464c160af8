"""From a captured graph to compiled kernels: makes the graph one that Inductor takes, and shows what it generated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from graphwright_plugins import CompiledGraph, LeftToEager, beyond_aot, compile_context, show_artifact
from graphwright_plugins.torch_compat import as_fake
from graphwright_plugins.unused_results import first_results, with_unused_results

from .floats import HeldFloats, fix_floats, hold_floats, holding_floats
from .options import InductorOptions, to_config
from .torch_compat import FakeTensorMode, GuardOnDataDependentSymNode, compile_fx, floats_in_tensors


def compile_graph(graph: fx.GraphModule, example_inputs: Sequence[Any], options: InductorOptions) -> CompiledGraph:
    """Compile a graph by Inductor, in the caller's tracing context or one of its own.

    Operations whose results nobody uses stay: they may draw random numbers, or fail.

    Raises:
        LeftToEager: AOTAutograd, through which Inductor goes, can't do this graph as eager does.
    """
    with compile_context(example_inputs) as fake_mode:
        inputs = [as_fake(fake_mode, value) for value in example_inputs]
        reason = beyond_aot(graph, inputs, fake_mode)
        if reason is not None:
            raise LeftToEager(f"AOTAutograd can't do this graph as eager does: {reason}", reason=reason)
        complete, count = with_unused_results(graph, inputs, fake_mode)
        with floats_in_tensors(fake_mode):
            compiled = _compile(complete, inputs, fake_mode, options)
    return compiled if complete is graph else first_results(compiled, count)


def _compile(
    graph: fx.GraphModule, inputs: Sequence[Any], fake_mode: FakeTensorMode, options: InductorOptions
) -> CompiledGraph:
    held = hold_floats(graph, inputs, fake_mode)
    if not held.places:
        return _compile_held(held, options)
    try:
        return holding_floats(_compile_held(held, options), held.places)
    except GuardOnDataDependentSymNode:  # what the graph does depends on one, as dropout does on its probability
        return _compile_held(fix_floats(graph, inputs), options)


def _compile_held(held: HeldFloats, options: InductorOptions) -> CompiledGraph:
    return compile_fx(held.graph, held.example_inputs, to_config(options), _show_code)


def _show_code(name: str, text: str) -> None:
    show_artifact("output_code", name, text)
