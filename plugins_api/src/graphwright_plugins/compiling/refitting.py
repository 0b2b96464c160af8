"""Compiling with a backend that can exchange the weights in what it compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins.errors import UnsupportedGraph
from graphwright_plugins.form.exchange import Refit
from graphwright_plugins.protocol import CompiledGraph, HasRefit
from graphwright_plugins.report import Outcome

from .graph_compiler import GraphJob

_WHY_NOT: Final[Mapping[Outcome, str]] = {
    "backend": "",
    "parts": "the graph was cut, and the backend has parts of it only",
    "fallback": "the fallback backend runs the graph",
    "eager": "the graph runs in eager",
    "failed": "the graph did not compile",
}


class RefittingJob:
    """Compiles graphs as a `GraphJob` does, and remembers whether the last one is the backend's own.

    Args:
        job: How to compile graphs.
        backend: Its backend.
    """

    def __init__(self, job: GraphJob, backend: HasRefit) -> None:
        self._job = job
        self._backend = backend
        self._outcome: Outcome = "failed"

    @property
    def refit(self) -> Refit:
        """How to exchange weights in what this compiles."""
        return Refit(self._update, lambda: _WHY_NOT[self._outcome])

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> CompiledGraph:
        """Compile one graph; see `GraphJob.compile`."""
        compiled, self._outcome = self._job.compile_telling(graph, example_inputs)
        return compiled

    def _update(self, compiled: CompiledGraph, tensors: Mapping[str, torch.Tensor]) -> CompiledGraph | None:
        try:
            made = self._backend.update_weights(compiled, tensors)
        except UnsupportedGraph:
            raise
        except Exception as error:
            raise self._bug(f"raised {type(error).__name__}: {error}") from error
        if made is not None and not callable(made):
            raise self._bug(f"returned a {type(made).__name__}, which can't be called")
        return made

    def _bug(self, what: str) -> UnsupportedGraph:
        reason = f"update_weights of {self._job.whose} {what}; a bug of the backend's"
        return UnsupportedGraph(reason, reason=reason)
