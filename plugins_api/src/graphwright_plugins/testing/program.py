"""Small programs to compile, and turning them into graphs without a capture front end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from graphwright_plugins.errors import LeftToEager
from graphwright_plugins.protocol import CompiledGraph
from graphwright_plugins.resolve import ResolvedBackend
from graphwright_plugins.torch_compat import FakeTensorMode, as_fake, as_symbolic, new_fake_mode, tracing_context


@dataclass(frozen=True)
class Program:
    """A function over tensors and the inputs to try it on."""

    id: str
    """A word or two for test names."""
    function: Callable[..., tuple[Any, ...]]
    """Takes the inputs positionally and returns a tuple. `torch.fx.symbolic_trace` must be able to trace it."""
    make_inputs: Callable[[], Sequence[Any]]
    """Makes the inputs on the default device, alike each time it is called after `torch.manual_seed`."""

    def inputs(self, device: str = "cpu", seed: int = 0) -> list[Any]:
        """Fresh inputs, the same for the same seed, as leaves of autograd."""
        torch.manual_seed(seed)
        with torch.device(device):
            return list(self.make_inputs())


def trace(function: Callable[..., Any]) -> fx.GraphModule:
    """Record a function's torch calls as a graph."""
    return fx.symbolic_trace(function)


class _Dtypes(fx.Interpreter):
    """Runs a graph, and notes the dtypes of the tensors in it."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph)
        self.found: set[torch.dtype] = set()

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        values = result if isinstance(result, (tuple, list)) else (result,)
        self.found |= {value.dtype for value in values if isinstance(value, torch.Tensor)}
        return result


def dtypes_of(program: Program) -> set[torch.dtype]:
    """The dtypes of the tensors that occur in a program."""
    run = _Dtypes(trace(program.function))
    run.run(*program.inputs())
    return run.found


def compile_program(resolved: ResolvedBackend, program: Program, inputs: Sequence[Any]) -> CompiledGraph:
    """Compile a program for inputs of these sizes, as capture would: on fakes, inside a tracing context."""
    return compile_graph(resolved, trace(program.function), inputs)


def compile_graph(resolved: ResolvedBackend, graph: fx.GraphModule, inputs: Sequence[Any]) -> CompiledGraph:
    """Compile a graph for inputs of these sizes."""
    fake_mode = new_fake_mode()
    return _compile(resolved, graph, [as_fake(fake_mode, value) for value in inputs], fake_mode)


def compile_symbolic(
    resolved: ResolvedBackend, program: Program, inputs: Sequence[torch.Tensor], dynamic_dims: Sequence[int]
) -> CompiledGraph:
    """Compile a program with the given dimensions of every input symbolic."""
    fake_mode = new_fake_mode()
    examples = [as_symbolic(fake_mode, tensor, dynamic_dims) for tensor in inputs]
    return _compile(resolved, trace(program.function), examples, fake_mode)


def compile_with_size(resolved: ResolvedBackend, program: Program, tensor: torch.Tensor) -> CompiledGraph:
    """Compile a program of a tensor and its number of rows, which is symbolic and an input of its own."""
    fake_mode = new_fake_mode()
    example = as_symbolic(fake_mode, tensor, [0])
    return _compile(resolved, trace(program.function), [example, example.shape[0]], fake_mode)


def _compile(
    resolved: ResolvedBackend, graph: fx.GraphModule, examples: list[Any], fake_mode: FakeTensorMode
) -> CompiledGraph:
    with tracing_context(fake_mode):
        try:
            return resolved.compile(graph, examples)
        except LeftToEager:  # as Graphwright does
            forward: CompiledGraph = graph.forward
            return forward
