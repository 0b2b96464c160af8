"""Hands a graph to the backend, and tells what came of it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import graphwright._native as _native
import graphwright.events as events
import graphwright.graph_breaks as gb
from graphwright.cache_key import CacheKey
from graphwright.exc import BackendCompilerFailed, GraphBreak
from graphwright.frames.backend_events import tell_report
from graphwright.graph.bodies import body_modules
from graphwright.graph.finished_graph import FinishedGraph
from graphwright.graph.graph_call import call_backend, graph_itself
from graphwright.graph.history import forget_history
from graphwright.graph.result_check import ResultCheck, facts_of_outputs
from graphwright.plugin_events import transform
from graphwright.torch_compat import DATA_DEPENDENT_ERRORS, TracingContext, forget_source_with, refuses_symbolic_floats
from graphwright_plugins import GraphReport, LeftToEager, collecting
from graphwright_plugins.naming import backend_in_words


class BackendCall:
    """The compilation of one graph by the backend that was asked for.

    Args:
        key: what the graph is compiled for; its backend falls back on errors too where errors are to be suppressed.
        site: the capture that the graph is of.

    Attributes:
        reports: what became of the graph at the backend; empty before.
    """

    def __init__(self, key: CacheKey, site: events.CaptureSite) -> None:
        backend = key.backend
        if key.settings.suppress_errors and backend.on_error == "raise":
            backend = dataclasses.replace(backend, on_error="fallback")
        self._backend = backend
        self._site = site
        self.reports: tuple[GraphReport, ...] = ()

    @property
    def may_fall_back(self) -> bool:
        """Whether the graph may run elsewhere where the backend fails on it."""
        return self._backend.on_error == "fallback"

    def compile(self, graph: FinishedGraph, context: TracingContext) -> Callable[..., Any] | None:
        """What runs the graph; None for a graph without operations.

        Raises:
            BackendCompilerFailed: the backend raised.
            GraphBreak: the backend needs values of tensors, which only eager has.
        """
        if graph.module is None:
            return None
        backend, site = self._backend, self._site
        examples = tuple(graph.example_inputs)
        site.tell(events.GraphCaptured, graph_module=graph.module, name=graph.name, example_inputs=examples)
        module = transform(graph.module, graph.example_inputs)
        graph = dataclasses.replace(graph, module=module)
        named = backend_in_words(backend.name, backend.distribution, backend.version)
        check = ResultCheck(named, graph.name, graph.n_outputs, facts_of_outputs(module))
        compiled = self._timed(graph, context)
        _forget_capture(module)
        return compiled if backend.distribution == "graphwright-eager" else check.around(compiled)

    def _timed(self, graph: FinishedGraph, context: TracingContext) -> Callable[..., Any]:
        """Call the backend, with what there is to tell before and after."""
        backend, site = self._backend, self._site
        whose = {"distribution": backend.distribution or "", "version": backend.version or ""}
        site.tell(events.BackendUsed, graph_name=graph.name, backend=backend.name, **whose)
        started = time.perf_counter()
        with collecting(graph.name) as collector:
            compiled = self._call(graph, context)
        seconds = time.perf_counter() - started
        self.reports = collector.reports
        site.tell(events.GraphCompiled, name=graph.name, backend=backend.name, seconds=seconds, reports=self.reports)
        for builder in collector.builders:
            tell_report(builder, site)
        return compiled

    def _call(self, graph: FinishedGraph, context: TracingContext) -> Callable[..., Any]:
        try:
            return call_backend(self._backend, graph, context, str(self._site.location))
        except BackendCompilerFailed as failure:
            return self._after_failure(graph, failure)

    def _after_failure(self, graph: FinishedGraph, failure: BackendCompilerFailed) -> Callable[..., Any]:
        """The graph as it is, where the backend left it to eager; else the error that fits."""
        name, cause = self._backend.name, failure.__cause__
        of = {"graph_name": graph.name, "backend": name}
        if isinstance(cause, LeftToEager):
            self._site.tell(events.GraphLeftToEager, error=cause, **of)
            return graph_itself(graph)
        if isinstance(cause, DATA_DEPENDENT_ERRORS):  # in a backward, say; eager has the values
            detail = f"backend {name!r}, compiling {graph.name}: {cause}"
            raise GraphBreak(gb.DATA_DEPENDENT_VALUE, detail, self._site.location) from failure
        if not refuses_symbolic_floats(cause):  # that is no end: it is tried without them
            self._site.tell(events.BackendFailed, error=failure, **of)
        raise failure


def _forget_capture(module: Any) -> None:
    """Drop what only capture and the backend need of a graph module, and keep the hook off its code."""
    for part in body_modules(module):
        forward: Any = part.forward  # a bound method, which torch annotates as any callable
        _native.mark(forward.__func__.__code__, None, _native.SKIP)
        forget_source_with(forward.__func__.__code__)
    forget_history(module)
