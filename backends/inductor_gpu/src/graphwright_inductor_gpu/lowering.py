"""From a captured graph to compiled kernels: makes the graph one that Inductor takes, and shows what it generated."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from graphwright_plugins import (
    BackendResourceError,
    CompiledGraph,
    LeftToEager,
    artifacts_wanted,
    beyond_aot,
    compile_context,
    show_artifact,
)
from graphwright_plugins.aot.gradient_paths import gradient_paths
from graphwright_plugins.aot.showing import show_graph
from graphwright_plugins.artifacts.size_assumptions import has_hidden_sizes
from graphwright_plugins.graphs.float_arithmetic import rearranges_floats
from graphwright_plugins.graphs.unused_results import with_unused_results
from graphwright_plugins.torch_compat import (
    DATA_DEPENDENT_ERRORS,
    as_fake,
    backward_as_in_eager,
    floats_kept,
    graph_caches_off,
)

from .artifacts import Recipe, note_parts
from .compiler_check import compiler_failure
from .constants import without_constants
from .floats import HeldFloats, fix_floats, hold_floats, reads_numbers
from .limits import beyond_inductor
from .options import InductorOptions, to_config
from .torch_compat import FakeTensorMode, compile_fx, cxx_names, floats_in_tensors, is_told_by_compiler, saveable


def compile_graph(graph: fx.GraphModule, example_inputs: Sequence[Any], options: InductorOptions) -> CompiledGraph:
    """Compile a graph by Inductor, in the caller's tracing context or one of its own.

    Operations whose results nobody uses stay: they may draw random numbers, or fail.

    Raises:
        LeftToEager: AOTAutograd, through which Inductor goes, can't do this graph as eager does.
        BackendResourceError: The C++ compiler doesn't work.
    """
    with compile_context(example_inputs) as fake_mode:
        inputs = [as_fake(fake_mode, value) for value in example_inputs]
        reason = beyond_aot(graph, inputs, fake_mode)
        if reason is not None:
            raise _left_to_eager(reason)
        reason = beyond_inductor(graph, inputs)
        if reason is not None:
            raise LeftToEager(f"Inductor can't do this graph as eager does: {reason}", reason=reason)
        paths = gradient_paths(graph, inputs, fake_mode)
        complete, count = with_unused_results(graph, inputs, fake_mode)
        computing, results = without_constants(complete)
        with floats_in_tensors(fake_mode, inputs):
            kernels, places = _compile(computing, inputs, fake_mode, options)
    recipe = Recipe(places, results, None if complete is graph else count, paths)
    compiled = recipe.around(kernels)
    if artifacts_wanted():
        note_parts(compiled, kernels, recipe)
    return compiled


def _compile(
    graph: fx.GraphModule, inputs: Sequence[Any], fake_mode: FakeTensorMode, options: InductorOptions
) -> tuple[CompiledGraph, tuple[int, ...]]:
    """The kernels, and which of the inputs are floats that these take in tensors."""
    if rearranges_floats(graph):
        return _compile_held(fix_floats(graph, inputs), options), ()
    held = hold_floats(graph, inputs, fake_mode)
    if not held.places:
        return _compile_held(held, options), ()
    with contextlib.suppress(LeftToEager, *DATA_DEPENDENT_ERRORS):
        return _compile_held(held, options), held.places
    # What the graph does depends on one, as dropout does on its probability; or it has more to do with sizes.
    return _compile_held(fix_floats(graph, inputs), options), ()


def _compile_held(held: HeldFloats, options: InductorOptions) -> CompiledGraph:
    config = to_config(options)
    if held.graph.graph.find_nodes(op="get_attr"):  # weights: the framework watches them
        config["freezing"] = options.freezing
    if has_hidden_sizes(held.example_inputs) and not artifacts_wanted():
        config["fx_graph_cache"] = False  # for the backward graph too, which is compiled later
    # Floats that come of sizes alone stay numbers: torch looks for the sizes among the inputs to make tensors of them.
    floats = contextlib.nullcontext() if held.places or reads_numbers(held.graph) else floats_kept()
    try:
        with _caching(held.example_inputs), backward_as_in_eager(), floats:
            explain = functools.partial(_explain, config)
            return compile_fx(held.graph, held.example_inputs, config, _show_code, show_graph, explain)
    except DATA_DEPENDENT_ERRORS:
        raise
    except BackendResourceError:  # `_explain` gave it
        raise
    except Exception as error:
        if is_told_by_compiler(error):
            raise
        # The graph ran on fakes before, so nothing is wrong with it.
        raise _left_to_eager(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}") from error


def _caching(example_inputs: Sequence[Any]) -> contextlib.AbstractContextManager[None]:
    """How to compile: so that it can be saved, and so that nothing is loaded that forgot what it assumed of sizes."""
    hidden = has_hidden_sizes(example_inputs)
    if artifacts_wanted():
        return saveable(find_others=not hidden)
    return graph_caches_off() if hidden else contextlib.nullcontext()


def _explain(config: Mapping[str, Any], error: Exception) -> Exception | None:
    """What to raise in place of an error of Inductor's that isn't its own."""
    return compiler_failure(cxx_names(config), (str(error).splitlines() or [type(error).__name__])[0])


def _left_to_eager(reason: str) -> LeftToEager:
    return LeftToEager(f"AOTAutograd can't do this graph as eager does: {reason}", reason=reason)


def _show_code(name: str, text: str) -> None:
    show_artifact("output_code", name, text)
