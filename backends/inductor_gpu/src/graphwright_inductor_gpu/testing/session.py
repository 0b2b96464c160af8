"""Compiles graphs for a GPU that is not there, and runs what comes out on the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from graphwright_inductor_gpu.lowering import compile_graph
from graphwright_inductor_gpu.options import InductorOptions
from graphwright_plugins import CompiledGraph, LeftToEager, compile_context

from .errors import HarnessError
from .kernel import Kernel
from .move import check_movable, move_lowered, moved_program
from .patches import Patches
from .stand_ins import pretending
from .target import TARGETS, Target
from .torch_compat import AsyncCompile, compile_fx_module


class Session:
    """What was compiled for one target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.kernels: list[Kernel] = []
        """The Triton kernels, in the order in which Inductor handed them to its asynchronous compiler."""
        self.failures: list[Exception] = []
        """What calls of compiled graphs raised; Graphwright runs such a call in eager, which hides it."""

    def compile(
        self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: InductorOptions | None = None
    ) -> CompiledGraph:
        """Compile a graph captured on CPU tensors by the backend `inductor_gpu` as if these were on the GPU.

        A plain `(gm, example_inputs)` callable: `graphwright.compile(fn, backend=session.compile)`.

        The graph is moved to fake CUDA tensors before the backend gets it. Where it needs gradients it is moved later,
        between AOTAutograd and Inductor, since a torch without CUDA runs no backward pass on fake CUDA tensors.

        Args:
            graph: The graph.
            example_inputs: Its inputs, or fakes of them; none may share memory.
            options: The backend's options.

        Returns:
            A function to be called on CPU tensors while the session lasts. Kernels run under Triton's interpreter,
            and calls of torch's operators, a matrix product's, say, on the CPU. So does its backward pass.

        Raises:
            HarnessError: The graph cannot be moved, or the backend leaves it to eager.
        """
        options = options or InductorOptions()
        with compile_context(example_inputs) as mode:
            try:
                if _needs_gradients(example_inputs):
                    check_movable(graph, example_inputs)
                    compiled = compile_graph(graph, example_inputs, options)
                else:
                    compiled = compile_graph(*moved_program(graph, example_inputs, mode), options)
            except LeftToEager as error:
                raise HarnessError(f"nothing was compiled for {self.target.name}: {error}") from error
        return self._noting_failures(compiled)

    def _noting_failures(self, compiled: CompiledGraph) -> CompiledGraph:
        def call(*inputs: Any) -> Any:
            try:
                return compiled(*inputs)
            except Exception as error:
                self.failures.append(error)
                raise

        return call

    def _take(self, name: str, source: str) -> Kernel:
        kernel = Kernel(name, source, self.target)
        self.kernels.append(kernel)
        return kernel


@contextlib.contextmanager
def cross_compiling(target: str | Target = "sm_90") -> Iterator[Session]:
    """Compile for a GPU in this block.

    Args:
        target: One of `TARGETS`, by name, or one's own.

    Raises:
        HarnessError: In the end, where a call of a compiled graph failed and the block did not.
    """
    session = Session(TARGETS[target] if isinstance(target, str) else target)

    def take(compiler: Any, kernel_name: str, source_code: str, device_str: str = "cuda") -> Kernel:
        return session._take(kernel_name, source_code)

    with pretending(session.target), Patches() as patches:
        patches.set(AsyncCompile, "triton", take)
        patches.set(compile_fx_module, "compile_fx_inner", _moving(compile_fx_module.compile_fx_inner))
        yield session
    if session.failures:
        raise HarnessError(f"{len(session.failures)} calls of compiled graphs failed") from session.failures[0]


def _moving(compile_inner: Callable[..., Any]) -> Callable[..., Any]:
    """Inductor's compiler for the graphs of AOTAutograd, which moves those that are on the CPU to the GPU first."""

    def compile_moved(graph: fx.GraphModule, example_inputs: Sequence[Any], **keywords: Any) -> Any:
        with compile_context(example_inputs) as mode:
            return compile_inner(graph, move_lowered(graph, example_inputs, mode), **keywords)

    return compile_moved


def _needs_gradients(inputs: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in inputs)
