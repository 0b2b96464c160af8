"""Compiling a captured graph by a backend that has a say in the graph's form, with the fallback where it has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from graphwright_plugins.errors import LeftToEager, UnsupportedGraph
from graphwright_plugins.form.delivery import compile_in_form
from graphwright_plugins.form.graph_form import GraphForm
from graphwright_plugins.form.weights import gradients_flow
from graphwright_plugins.partition.decide import PartitionPlan
from graphwright_plugins.protocol import CompiledGraph, HasRefit
from graphwright_plugins.report import reporting

from .graph_compiler import GraphJob
from .input_devices import inputs_elsewhere
from .refitting import RefittingJob


@dataclass(frozen=True)
class FormJob:
    """How to compile captured graphs with one backend."""

    job: GraphJob
    """How to compile a graph that has the form."""
    form: GraphForm
    """The form."""

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> CompiledGraph:
        """Compile one captured graph; see `GraphJob.compile`.

        Raises:
            LeftToEager: The graph can't be brought into the form as eager does it.
            UnsupportedGraph: The graph has no such form, or inputs on devices that the backend doesn't list, and the
                fallback is not to run then.
        """
        backend = self.job.owned.backend
        elsewhere = inputs_elsewhere(backend, graph, example_inputs)
        if elsewhere is not None:
            return self._unsupported(elsewhere, graph, example_inputs)
        if not backend.capabilities.training and gradients_flow(graph, example_inputs):
            reason = f"gradients flow through the graph, and backend {self.job.name!r} does inference only"
            return self._on_fallback(UnsupportedGraph(reason, reason=reason), graph, example_inputs)
        if self.form.is_as_captured:
            return self.job.compile(graph, example_inputs)
        refitting = RefittingJob(self.job, backend) if isinstance(backend, HasRefit) else None
        compile_graph = self.job.compile if refitting is None else refitting.compile
        refit = None if refitting is None else refitting.refit
        try:
            return compile_in_form(self.form, graph, example_inputs, compile_graph, refit=refit)
        except LeftToEager:
            raise
        except UnsupportedGraph as error:
            return self._unsupported(error, graph, example_inputs)

    def plans(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> tuple[PartitionPlan, ...]:
        """How a captured graph would be cut, one plan for each graph in the form; nothing is compiled by the backend.

        Raises:
            LeftToEager: The graph can't be brought into the form as eager does it.
            UnsupportedGraph: The graph has no such form.
        """
        found: list[PartitionPlan] = []

        def note(part: fx.GraphModule, part_inputs: Sequence[Any]) -> CompiledGraph:
            found.append(self.job.plan(part, part_inputs))
            forward: CompiledGraph = part.forward
            return forward

        compile_in_form(self.form, graph, example_inputs, note)
        return tuple(found)

    def _unsupported(
        self, error: UnsupportedGraph, graph: fx.GraphModule, example_inputs: Sequence[Any]
    ) -> CompiledGraph:
        """Do with a graph that the backend can't be given what the user asked for."""
        if self.job.on_error != "fallback":
            raise error
        return self._on_fallback(error, graph, example_inputs)

    def _on_fallback(
        self, error: UnsupportedGraph, graph: fx.GraphModule, example_inputs: Sequence[Any]
    ) -> CompiledGraph:
        owned, fallback = self.job.owned, self.job.fallback
        with reporting(self.job.name, owned.distribution, owned.version, owned.options) as report:
            compiled = fallback.compile(graph, example_inputs)
            report.outcome = "fallback"
            report.fallback = fallback.name
            report.fail(error, fallback.name, None)
        return compiled
