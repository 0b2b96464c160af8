"""From a captured graph to compiled kernels: makes the graph one that Inductor takes, and shows what it generated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from graphwright_plugins import CompiledGraph, LeftToEager, beyond_aot, compile_context, show_artifact
from graphwright_plugins.torch_compat import DATA_DEPENDENT_ERRORS, as_fake
from graphwright_plugins.unused_results import first_results, with_unused_results

from .constants import with_constants, without_constants
from .floats import HeldFloats, fix_floats, hold_floats, holding_floats
from .options import InductorOptions, to_config
from .torch_compat import FakeTensorMode, compile_fx, floats_in_tensors, is_told_by_compiler


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
            raise _left_to_eager(reason)
        complete, count = with_unused_results(graph, inputs, fake_mode)
        computing, results = without_constants(complete)
        with floats_in_tensors(fake_mode):
            compiled = _compile(computing, inputs, fake_mode, options)
    if results is not None:
        compiled = with_constants(compiled, results)
    return compiled if complete is graph else first_results(compiled, count)


def _compile(
    graph: fx.GraphModule, inputs: Sequence[Any], fake_mode: FakeTensorMode, options: InductorOptions
) -> CompiledGraph:
    held = hold_floats(graph, inputs, fake_mode)
    if not held.places:
        return _compile_held(held, options)
    try:
        return holding_floats(_compile_held(held, options), held.places)
    except DATA_DEPENDENT_ERRORS:  # what the graph does depends on one, as dropout does on its probability
        return _compile_held(fix_floats(graph, inputs), options)


def _compile_held(held: HeldFloats, options: InductorOptions) -> CompiledGraph:
    try:
        return compile_fx(held.graph, held.example_inputs, to_config(options), _show_code)
    except DATA_DEPENDENT_ERRORS:
        raise
    except Exception as error:
        if is_told_by_compiler(error):
            raise
        # The graph ran on fakes before, so nothing is wrong with it.
        raise _left_to_eager(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}") from error


def _left_to_eager(reason: str) -> LeftToEager:
    return LeftToEager(f"AOTAutograd can't do this graph as eager does: {reason}", reason=reason)


def _show_code(name: str, text: str) -> None:
    show_artifact("output_code", name, text)
