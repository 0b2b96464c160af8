"""From a graph to something that runs it: the backend, the fallback where that is asked for, parts of both."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from torch import fx

from graphwright_plugins.aot.compile import compile_context, positional
from graphwright_plugins.artifacts.cache import OwnedBackend, compile_or_load
from graphwright_plugins.errors import BackendContractError, LeftToEager, UnsupportedGraph
from graphwright_plugins.form.graph_form import form_of
from graphwright_plugins.naming import backend_in_words
from graphwright_plugins.partition.cutting import CutPart, carry_out
from graphwright_plugins.partition.decide import Cut, PartitionPlan, PartitionRequest, decide
from graphwright_plugins.partition.part_runner import compile_parts, pristine
from graphwright_plugins.protocol import CompiledGraph, GraphCompiler
from graphwright_plugins.report import Outcome, PartReport, ReportBuilder, reporting
from graphwright_plugins.signature import signature_of
from graphwright_plugins.supports import HasMinimumPart, HasPartitioner, HasSupports, ask, location_of, op_text
from graphwright_plugins.torch_compat import DATA_DEPENDENT_ERRORS, as_fake, asks_for_another_try

from .backward_failures import backward_owner, of_program

OnBackendError: TypeAlias = Literal["raise", "fallback"]
"""What to do where a backend fails on a graph, or on a part of one: raise, or have the fallback backend run it."""

EAGER: Final = "eager"
"""The fallback where none is named: the graph itself, run call by call."""


@dataclass(frozen=True)
class Fallback:
    """The backend that runs what another doesn't."""

    name: str
    """Its name."""
    compile: GraphCompiler
    """Compiles a graph with it."""


@dataclass(frozen=True)
class GraphJob:
    """How to compile graphs with one backend."""

    owned: OwnedBackend
    """The backend with its options."""
    on_error: OnBackendError
    """What to do where it fails."""
    find_fallback: Callable[[], Fallback]
    """Finds what runs in its place; called when that is needed."""

    @property
    def name(self) -> str:
        """The backend's name."""
        return self.owned.backend.name

    @functools.cached_property
    def fallback(self) -> Fallback:
        """What runs in the backend's place."""
        return self.find_fallback()

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> CompiledGraph:
        """Compile one graph.

        Raises:
            BackendContractError: The backend does what no backend may.
            Exception: What the backend raises, unless the fallback is to run then.
        """
        return self.compile_telling(graph, example_inputs)[0]

    def compile_telling(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> tuple[CompiledGraph, Outcome]:
        """As `compile`; also tells what became of the graph."""
        owned, backward = self.owned, backward_owner(graph, self.name, self.whose)
        kept = None if backward is None else pristine(graph)
        with reporting(self.name, owned.distribution, owned.version, owned.options, *of_program(graph)) as report:
            try:
                compiled = _Compilation(self, report).compile(graph, example_inputs)
            except LeftToEager as error:
                if kept is None:
                    raise
                compiled = kept.forward  # no capture is under way that could do so
                report.fail(error, EAGER, None)
            except Exception as error:
                if backward is not None and not _passes(error):
                    backward.note("compiling", error)
                raise
        return compiled if backward is None else backward.around(compiled), report.outcome

    @property
    def whose(self) -> str:
        """The backend in a message, with the distribution that it comes from."""
        return backend_in_words(self.name, self.owned.distribution, self.owned.version)

    def plan(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> PartitionPlan:
        """How a graph would be cut; compiles nothing."""
        cut = self.cut(graph, example_inputs)
        return PartitionPlan((), ()) if cut is None else cut.plan

    def cut(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Cut | None:
        """Decide how to cut a graph; None where the backend has no say in that, and gets the whole."""
        backend, options = self.owned.backend, self.owned.options
        if not isinstance(backend, (HasSupports, HasPartitioner)):
            return None
        with compile_context(example_inputs) as fake_mode:
            inputs = [as_fake(fake_mode, value) for value in example_inputs]
            chosen = backend.partition(graph, inputs, options) if isinstance(backend, HasPartitioner) else None
            request = PartitionRequest(
                why_not=lambda node: (
                    ask(backend, self.name, node, options) if isinstance(backend, HasSupports) else None
                ),
                capabilities=backend.capabilities,
                minimum_size=backend.minimum_part_size if isinstance(backend, HasMinimumPart) else 1,
                chosen=chosen,
                name=self.name,
            )
            return decide(graph, inputs, fake_mode, request)


class _Compilation:
    """The compilation of one graph."""

    def __init__(self, job: GraphJob, report: ReportBuilder) -> None:
        self._job = job
        self._report = report

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> CompiledGraph:
        cut = self._job.cut(graph, example_inputs)
        if cut is None or not cut.is_needed:
            return self._whole(graph, example_inputs)
        self._report.refusals += cut.refusals
        if cut.reasons:
            self._report.fallback = self._job.fallback.name
        if not any(mine for mine, _ in cut.parts):
            self._report.outcome = "fallback"
            return self._job.fallback.compile(graph, example_inputs)
        with compile_context(example_inputs) as fake_mode:
            inputs = [as_fake(fake_mode, value) for value in example_inputs]
            compiled = compile_parts(
                carry_out(graph, cut), signature_of(graph, inputs), inputs, fake_mode, self._part, self._whose
            )
        self._report.outcome = "parts"
        return compiled

    def _whole(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> CompiledGraph:
        kept = pristine(graph) if self._job.on_error == "fallback" else None
        try:
            compiled = self._on_backend(graph, example_inputs)
        except LeftToEager:
            self._report.outcome = "eager"
            raise
        except Exception as error:
            if kept is None or _passes(error):
                raise
            self._note_failure(error, None)
            self._report.outcome = "fallback"
            return self._job.fallback.compile(kept, example_inputs)
        self._report.outcome = "backend"
        return compiled

    def _whose(self, part: CutPart) -> str:
        return self._job.whose if part.on_backend else f"the fallback backend {self._job.fallback.name!r}"

    def _part(self, part: CutPart, example_inputs: Sequence[Any]) -> CompiledGraph:
        nodes = [n for n in part.module.graph.nodes if n.op.startswith("call_") and "sets_state" not in n.meta]
        names, ops = tuple(node.name for node in nodes), tuple(map(op_text, nodes))
        started = time.perf_counter()
        runs_on, compiled = self._compiled_part(part, example_inputs)
        self._report.parts.append(PartReport(runs_on, names, ops, time.perf_counter() - started))
        return compiled

    def _compiled_part(self, part: CutPart, example_inputs: Sequence[Any]) -> tuple[str, CompiledGraph]:
        if not part.on_backend:
            return self._part_on_fallback(part.module, example_inputs)
        kept = pristine(part.module)
        number = len(self._report.parts)
        try:
            return self._job.name, self._taking_each(self._on_backend(part.module, example_inputs))
        except LeftToEager as error:
            self._report.fail(error, EAGER, number)
            forward: CompiledGraph = kept.forward
            return EAGER, forward
        except Exception as error:
            if self._job.on_error != "fallback" or _passes(error):
                raise
            self._note_failure(error, number)
            return self._part_on_fallback(kept, example_inputs)

    def _taking_each(self, compiled: CompiledGraph) -> CompiledGraph:
        """A compiled part, taking its inputs positionally: what is compiled of operators may be boxed."""
        owned = self._job.owned
        return positional(compiled) if form_of(owned.backend, owned.options).level == "aten" else compiled

    def _part_on_fallback(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> tuple[str, CompiledGraph]:
        kept = pristine(graph)
        try:
            return self._job.fallback.name, self._job.fallback.compile(graph, example_inputs)
        except LeftToEager:
            forward: CompiledGraph = kept.forward
            return EAGER, forward

    def _on_backend(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> CompiledGraph:
        try:
            compiled: Any = compile_or_load(self._job.owned, graph, example_inputs)
        except UnsupportedGraph as error:
            _locate(error, graph)
            raise
        if not callable(compiled):
            raise BackendContractError(
                f"{self._job.whose} returned {compiled!r} for a graph; it must return a callable"
            )
        function: CompiledGraph = compiled
        return function

    def _note_failure(self, error: Exception, part: int | None) -> None:
        self._report.fallback = self._job.fallback.name
        self._report.fail(error, self._report.fallback, part)


def _locate(error: UnsupportedGraph, graph: fx.GraphModule) -> None:
    """Add the call and the user's line of the node that an error names."""
    for node in graph.graph.nodes:
        if error.node and node.name == error.node:
            error.op, error.location = op_text(node), location_of(node)


def _passes(error: Exception) -> bool:
    """Whether an error asks whoever captured the graph to do something else, and no fallback can help."""
    return isinstance(error, (LeftToEager, *DATA_DEPENDENT_ERRORS)) or asks_for_another_try(error)
