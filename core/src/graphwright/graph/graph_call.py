"""What stands around a compiled graph: compiling it under the right state, and checks on its calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import fx

import graphwright.config as config
from graphwright.exc import BackendCompilerFailed
from graphwright.graph.ambient_state import AmbientState, process_state_kept, under
from graphwright.graph.finished_graph import FinishedGraph
from graphwright.graph.graph_inputs import GraphInput
from graphwright.torch_compat import TracingContext, onednn_off, quiet_grad_access, tracing
from graphwright_plugins import OfferedValues, offering, using_artifact_settings
from graphwright_plugins.graphs.facts import tensors_in
from graphwright_plugins.signature import attach_signature

GraphFunction = Callable[..., Sequence[Any]]


class CompilingBackend(Protocol):
    """A backend with its options bound, and whose it is."""

    @property
    def name(self) -> str:
        """The name users choose it by."""

    @property
    def distribution(self) -> str | None:
        """The installed package it comes from."""

    @property
    def version(self) -> str | None:
        """That package's version."""

    @property
    def takes_real_inputs(self) -> bool:
        """Whether it is a plain callable, which expects real tensors as examples."""

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        """Compile one graph."""


def call_backend(
    backend: CompilingBackend, graph: FinishedGraph, context: TracingContext, location: str = ""
) -> GraphFunction:
    """Have a graph compiled, under the state at the graph's entry.

    Args:
        backend: the backend.
        graph: the graph.
        context: the tracing context of its capture.
        location: `file:line` of the function that it is of, for errors.

    Raises:
        BackendCompilerFailed: the backend raised, or returned something that cannot be called.
    """
    module = graph.module
    if module is None:
        raise ValueError(f"graph {graph.name} computes nothing; there is nothing to compile")
    if graph.signature is not None:
        attach_signature(module, graph.signature)  # a transform may have put another graph in the captured one's place
    try:
        with contextlib.ExitStack() as state:
            state.enter_context(process_state_kept())
            state.enter_context(under(graph.entry_state))
            state.enter_context(tracing(context))
            state.enter_context(using_artifact_settings(config.current().artifacts))
            state.enter_context(offering(_values_of(graph)))
            state.enter_context(quiet_grad_access(*tensors_in(graph.example_inputs)))
            if _trains_lstm(module, graph.example_inputs):
                state.enter_context(onednn_off())
            compiled = backend.compile(module, _examples_for(backend, graph))
    except Exception as error:
        raise _failure(backend, graph.name, location, error) from error
    if not callable(compiled):
        fault = TypeError(f"it returned a {type(compiled).__name__} where a callable is expected")
        raise _failure(backend, graph.name, location, fault)
    return restoring_state(compiled) if graph.changes_state else compiled


def _values_of(graph: FinishedGraph) -> OfferedValues:
    """The real inputs, for backends that want weights as constants; they keep none of them."""
    values = [entry.tensor if isinstance(entry, GraphInput) else None for entry in graph.inputs]
    return OfferedValues(values, process_state_kept)


def graph_itself(graph: FinishedGraph) -> GraphFunction:
    """The graph as a function, run in eager call by call."""
    module = graph.module
    if module is None:
        raise ValueError(f"graph {graph.name} computes nothing; there is nothing to run")
    forward: GraphFunction = module.forward
    return restoring_state(forward) if graph.changes_state else forward


def _examples_for(backend: CompilingBackend, graph: FinishedGraph) -> Sequence[Any]:
    """Fakes; or the real inputs for a plain callable, which may run the graph on them, as under `torch.compile`.

    Where the graph writes to its inputs it gets fakes all the same: running the graph must not change them twice. And
    where sizes vary: only fakes tell that.
    """
    entries = graph.inputs
    unchanged = all(e.fake is example for e, example in zip(entries, graph.example_inputs, strict=True))
    tensors = [entry for entry in entries if isinstance(entry, GraphInput) and entry.symbols is None]
    if backend.takes_real_inputs and unchanged and len(tensors) == len(entries):
        return [entry.tensor for entry in tensors]
    return graph.example_inputs


def _trains_lstm(module: fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Whether AOTAutograd would meet oneDNN's fused LSTM, for which it builds a backward graph that fails when run."""
    return any(example.requires_grad for example in tensors_in(example_inputs)) and any(
        node.op == "call_function" and getattr(node.target, "__name__", "") == "lstm" for node in module.graph.nodes
    )


def _failure(backend: CompilingBackend, graph_name: str, location: str, cause: BaseException) -> BackendCompilerFailed:
    whose = (backend.name, backend.distribution or "", backend.version or "")
    return BackendCompilerFailed(*whose, graph_name, cause, location)


def restoring_state(function: GraphFunction) -> GraphFunction:
    """The function, leaving grad mode and autocast as they were also when it raises midway."""

    def call_graph(*inputs: Any) -> Sequence[Any]:
        before = AmbientState.current()
        try:
            return function(*inputs)
        except BaseException:
            before.install()
            raise

    return call_graph


def random_generators(graph: FinishedGraph) -> list[torch.Generator]:
    """The generators that a graph's operations may draw from: those of the CPU and of the devices of its tensors."""
    nodes = graph.module.graph.nodes if graph.module is not None else ()
    devices = {tensor.device for node in nodes for tensor in tensors_in(node.meta.get("example_value"))}
    others = sorted((d.type, d.index or 0) for d in devices if d.type not in ("cpu", "meta"))
    return [torch.default_generator, *(torch.get_device_module(kind).default_generators[i] for kind, i in others)]


def restoring_random_state(function: GraphFunction, generators: Sequence[torch.Generator]) -> GraphFunction:
    """The function, leaving random state as it was where it fails: the call is going to run again, in eager."""

    def call_graph(*inputs: Any) -> Sequence[Any]:
        before = [generator.get_state() for generator in generators]
        try:
            return function(*inputs)
        except Exception:
            for generator, state in zip(generators, before, strict=True):
                generator.set_state(state)
            raise

    return call_graph
