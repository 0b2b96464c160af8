"""Help around AOTAutograd for backends that compile operator-level, functional graphs.

AOTAutograd turns a graph of torch calls into a forward and a backward graph of operators without in-place effects, and
wraps what the backend makes of them so that mutations, aliases and gradients come out as in eager.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from torch import fx

from graphwright_plugins.errors import LeftToEager
from graphwright_plugins.graphs.float_arithmetic import SymbolicFloatsRefused, rearranges_floats
from graphwright_plugins.graphs.unused_results import first_results, with_unused_results
from graphwright_plugins.protocol import CompiledGraph, GraphCompiler
from graphwright_plugins.signature import GraphKind, attached_signature, derived_signature
from graphwright_plugins.torch_compat import (
    DATA_DEPENDENT_ERRORS,
    FakeTensorMode,
    aot_module_simplified,
    as_fake,
    asks_for_another_try,
    backward_as_in_eager,
    core_aten_decompositions,
    fake_mode_of,
    floats_kept,
    is_boxed,
    mark_boxed,
    new_fake_mode,
    partition_functions,
    tracing_context,
    use_boxed_calls,
)

from .grad_mode import gradients_on_around
from .gradient_paths import gradient_paths
from .limits import beyond_aot
from .lock import COMPILE_LOCK
from .showing import show_graph
from .signatures import AotSignatures

Partition: TypeAlias = Literal["default", "min_cut"] | Callable[..., Any]
"""How saved values are chosen: `"default"` saves what the forward made, `"min_cut"` recomputes to save memory."""


def aot_compile(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    fw_compiler: GraphCompiler,
    bw_compiler: GraphCompiler | None = None,
    inference_compiler: GraphCompiler | None = None,
    *,
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    partition: Partition = "default",
    keep_inference_input_mutations: bool = False,
) -> CompiledGraph:
    """Compile a graph through AOTAutograd.

    Works inside the caller's tracing context, or makes one where there is none. Operations whose results nobody uses
    stay in the forward graph: they may draw random numbers, or fail.

    Args:
        graph: The graph, its output a tuple.
        example_inputs: Fake tensors, numbers or symbolic numbers; real tensors are replaced by fakes of fixed sizes.
        fw_compiler: Compiles forward graphs. What it returns may be boxed (see `boxed`) or take inputs positionally.
        bw_compiler: Compiles backward graphs, when the first backward pass runs at the latest; `fw_compiler` if None.
        inference_compiler: Compiles forward graphs that no backward follows; `fw_compiler` if None.
        decompositions: Operators to replace, with the function that replaces each.
        partition: How values to save for the backward are chosen.
        keep_inference_input_mutations: Leave changes of inputs in inference graphs, as `copy_` at their end.

    Returns:
        The compiled graph, called with the inputs positionally.

    Raises:
        ValueError: An unknown name for `partition`.
        LeftToEager: AOTAutograd can't do this graph as eager does.
        SymbolicFloatsRefused: Nor can it while floats vary; the framework captures anew with them fixed.
    """
    settings = {
        "partition_fn": _partition_function(partition),
        "decompositions": None if decompositions is None else dict(decompositions),
        "keep_inference_input_mutations": keep_inference_input_mutations,
    }
    with compile_context(example_inputs) as fake_mode:
        inputs = [as_fake(fake_mode, value) for value in example_inputs]
        signature = attached_signature(graph) or derived_signature(graph, inputs, find_writes=False)
        compilers = _Compilers(AotSignatures(signature))
        settings["fw_compiler"] = compilers.watched(fw_compiler, GraphKind.FORWARD)
        settings["bw_compiler"] = compilers.watched(bw_compiler or fw_compiler, GraphKind.BACKWARD)
        settings["inference_compiler"] = compilers.watched(inference_compiler or fw_compiler, GraphKind.INFERENCE)
        with _limits_told(compilers), gradients_on_around(graph) as (own, around):
            compiled = _compile(own, inputs, fake_mode, settings)
    return compiled if around is None else around.around(compiled)


def _compile(
    graph: fx.GraphModule, inputs: Sequence[Any], fake_mode: FakeTensorMode, settings: Mapping[str, Any]
) -> CompiledGraph:
    reason = beyond_aot(graph, inputs, fake_mode)
    if reason is not None:
        raise _left_to_eager(reason)
    if rearranges_floats(graph):
        raise SymbolicFloatsRefused("the graph computes with floats that vary, in several steps")
    paths = gradient_paths(graph, inputs, fake_mode)
    complete, count = with_unused_results(graph, inputs, fake_mode)
    with backward_as_in_eager(), floats_kept():
        compiled: CompiledGraph = aot_module_simplified(complete, inputs, **settings)
    if complete is not graph:
        compiled = first_results(compiled, count)
    return compiled if paths is None else paths.around(compiled)


class _Compilers:
    """Knows what the backend's own compilers raised: that is no limit of AOTAutograd's."""

    def __init__(self, signatures: AotSignatures) -> None:
        self.signatures = signatures
        self.error: Exception | None = None

    def watched(self, compiler: GraphCompiler, kind: GraphKind) -> GraphCompiler:
        """The compiler, given graphs with signatures, its results boxed and its errors remembered."""
        compile_boxed = boxed_compiler(compiler)

        def compile_graph(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            try:
                with COMPILE_LOCK:  # a backward graph is compiled when it runs, perhaps
                    self.signatures.attach(kind, graph, example_inputs)
                    show_graph(f"{kind} graph", graph)
                    return compile_boxed(graph, example_inputs)
            except Exception as error:
                self.error = error
                raise

        return compile_graph


@contextlib.contextmanager
def _limits_told(compilers: _Compilers) -> Iterator[None]:
    """Have what AOTAutograd raises leave the graph to eager: it ran on fakes before, so nothing is wrong with it."""
    try:
        yield
    except (LeftToEager, SymbolicFloatsRefused):
        raise
    except Exception as error:
        if compilers.error is not None or isinstance(error, DATA_DEPENDENT_ERRORS) or asks_for_another_try(error):
            raise
        lines = str(error).splitlines() or [""]
        raise _left_to_eager(f"{type(error).__name__}: {lines[0]}") from error


def _left_to_eager(reason: str) -> LeftToEager:
    return LeftToEager(f"AOTAutograd can't do this graph as eager does: {reason}", reason=reason)


def _partition_function(partition: Partition) -> Callable[..., Any]:
    if not isinstance(partition, str):
        return partition
    functions = partition_functions()
    if partition not in functions:
        raise ValueError(f"partition must be 'default', 'min_cut' or a function, not {partition!r}")
    return functions[partition]


@contextlib.contextmanager
def compile_context(example_inputs: Sequence[Any]) -> Iterator[FakeTensorMode]:
    """The tracing context that AOTAutograd and Inductor expect, made where the caller has none.

    One thread is in it at a time: tracing patches classes for all of them.

    Yields:
        The fake tensor mode of the context, of the inputs, or a new one when all inputs are real.
    """
    fake_mode = fake_mode_of(example_inputs) or new_fake_mode()
    with COMPILE_LOCK, tracing_context(fake_mode):
        yield fake_mode


def boxed(function: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """Make a function that takes inputs positionally take one list instead, which it empties.

    Emptying the list lets an input be freed while the function still runs.
    """
    if is_boxed(function):
        return function

    def call(arguments: list[Any]) -> Any:
        positional = tuple(arguments)
        arguments.clear()
        return function(*positional)

    return mark_boxed(call)


def positional(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, taking its inputs positionally.

    Of use where a function may be boxed only: AOTAutograd marks functions as boxed that are not.
    """
    if not is_boxed(function):
        return function

    def call(*inputs: Any) -> Any:
        return function(list(inputs))

    return call


def boxed_compiler(compiler: GraphCompiler) -> GraphCompiler:
    """Make a compiler whose results are boxed whatever the given compiler returns."""

    def compile_boxed(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return boxed(compiler(graph, example_inputs))

    return compile_boxed


def core_decompositions() -> dict[Any, Callable[..., Any]]:
    """The decompositions that leave only torch's core operator set."""
    return dict(core_aten_decompositions())


def run_in_eager(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
    """A compiler that runs the graph operator by operator, freeing each value after its last use."""
    use_boxed_calls(graph)
    forward = graph.forward

    def call(arguments: list[Any]) -> Any:  # a bound method can't carry the mark
        return forward(arguments)

    return mark_boxed(call)
