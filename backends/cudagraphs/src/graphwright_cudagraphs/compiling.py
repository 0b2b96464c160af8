"""From a captured graph to graphs that are recorded: AOTAutograd makes them, the rules look at each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from graphwright_plugins import CompiledGraph, GraphKind, LeftToEager, aot_compile, run_in_eager, signature_of
from graphwright_plugins.torch_compat import mark_boxed

from .memory import Memory
from .notices import Notice, Notices
from .options import CudaGraphsOptions
from .recorded_graph import RecordedGraph
from .recorder import RecorderFactory
from .refusals import is_worth_recording, look_at, why_not_recordable


class CompiledCudaGraphs:
    """A compiled graph. `close()` frees its recordings; it runs in eager from then on.

    Args:
        call: Calls it.
        memory: What its graphs share.
        graphs: Those of its graphs that are recorded; the backward graph may come later.
    """

    def __init__(self, call: CompiledGraph, memory: Memory, graphs: list[RecordedGraph]) -> None:
        self._call = call
        self._memory = memory
        self._graphs = graphs

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Run the graph."""
        return self._call(*inputs)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What did not run from a recording so far, and why."""
        return self._memory.notices.all()

    @property
    def recordings(self) -> dict[str, int]:
        """How many recordings each graph has: `{"forward graph": 1, "backward graph": 1}`."""
        return {graph.part: len(graph.recordings) for graph in self._graphs}

    def close(self) -> None:
        """Free all recordings. What was handed out stays as it is, and a backward that is still to come runs."""
        with self._memory.lock:
            self._memory.is_closed = True
            for graph in self._graphs:
                graph.close()


def compile_graph(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: CudaGraphsOptions,
    device_type: str,
    make_recorder: RecorderFactory,
) -> CompiledCudaGraphs:
    """Compile a graph through AOTAutograd into graphs that are recorded.

    Raises:
        LeftToEager: The graph cannot be recorded; the message says why.
    """
    compilation = _Compilation(options, device_type, Memory(make_recorder, Notices()))
    compiled = aot_compile(
        graph,
        example_inputs,
        compilation.compile,
        partition=options.partition,
        keep_inference_input_mutations=_writes_to_fixed_addresses(graph, example_inputs),
    )
    return CompiledCudaGraphs(compiled, compilation.memory, compilation.graphs)


def _writes_to_fixed_addresses(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Whether all inputs that are written to have fixed addresses.

    Then the writes are recorded. Otherwise AOTAutograd returns the new values, and copies them to the inputs after the
    replay.
    """
    return all(entry.static_address for entry in signature_of(graph, example_inputs).inputs if entry.mutated)


class _Compilation:
    """Compiles the graphs that AOTAutograd makes of one."""

    def __init__(self, options: CudaGraphsOptions, device_type: str, memory: Memory) -> None:
        self.graphs: list[RecordedGraph] = []
        self.memory = memory
        self._options = options
        self._device_type = device_type

    def compile(self, module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
        """Compile a forward, backward or inference graph."""
        graph = look_at(module, signature_of(module), self._device_type)
        refusal = why_not_recordable(graph)
        is_recorded = refusal is None and is_worth_recording(graph)
        if refusal is not None and graph.signature.kind is not GraphKind.BACKWARD:
            raise LeftToEager(
                f"the graph cannot be recorded as a CUDA graph: {refusal}", node=refusal.node, reason=refusal.reason
            )
        run = run_in_eager(module, example_inputs)
        if refusal is not None:  # its forward may be recorded already, and the first backward may be running
            self.memory.notices.tell("backward graph", "refused", f"runs in eager: {refusal}")
        if not is_recorded:
            return run
        recorded = RecordedGraph(graph, run, self.memory, self._options)
        self.graphs.append(recorded)

        def call(inputs: list[Any]) -> Any:  # an object with __call__ cannot carry the mark
            return recorded(inputs)

        return mark_boxed(call)
