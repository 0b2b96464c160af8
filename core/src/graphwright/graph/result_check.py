"""Whether what a compiled graph returns is what the graph returns: the backend may be anybody's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import fx

from graphwright.torch_compat import SYMBOLIC_TYPES
from graphwright_plugins import BackendContractError, CompiledGraph


class _TensorFacts(NamedTuple):
    """What is known beforehand of a tensor that a graph returns."""

    dtype: torch.dtype
    device: str
    """The kind of its device."""
    shape: tuple[int | None, ...]
    """Its sizes; None for one that varies."""

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"a tensor of {self.dtype} of sizes ({sizes}) on {self.device}"


@dataclass(frozen=True)
class ResultCheck:
    """Checks the results of one compiled graph; all of them once, and then their number at each call.

    It lives with the cache entry, so it knows neither the graph, which knows the inputs of the first call, nor the
    backend's object.
    """

    whose: str
    """The backend, and the distribution that it comes from."""
    graph_name: str
    n_outputs: int
    facts: tuple[_TensorFacts | None, ...]
    """What is known of each result; None where it is no tensor, or nothing is known."""

    def around(self, function: CompiledGraph) -> CompiledGraph:
        """The function, which raises BackendContractError where its results are not the graph's."""
        is_new = True
        n_outputs = self.n_outputs

        def call_graph(*inputs: Any) -> Sequence[Any]:
            nonlocal is_new
            results = function(*inputs)
            if not isinstance(results, (tuple, list)) or len(results) != n_outputs:
                raise self._failure(_why_not_results(results, n_outputs))
            if is_new:
                self._check_each(results)
                is_new = False
            return results

        return call_graph

    def _check_each(self, results: Sequence[Any]) -> None:
        for place, (result, facts) in enumerate(zip(results, self.facts, strict=True)):
            fault = None if facts is None else _why_not(result, facts)
            if fault is not None:
                raise self._failure(f"returned {fault} as output {place}, which is {facts} in the graph")

    def _failure(self, what: str) -> BackendContractError:
        return BackendContractError(
            f"{self.whose}: what it compiled of {self.graph_name} {what}. A bug of the backend's, to be reported to "
            "its authors; backend='eager' runs the program without it"
        )


def facts_of_outputs(module: fx.GraphModule) -> tuple[_TensorFacts | None, ...]:
    """What is known of the results of a captured graph, by what its nodes gave on fakes."""
    results: Any = module.graph.output_node().args[0]
    return tuple(_facts(result) for result in results)


def _facts(result: Any) -> _TensorFacts | None:
    value = result.meta.get("example_value") if isinstance(result, fx.Node) else None
    if not isinstance(value, torch.Tensor):
        return None
    shape = tuple(None if isinstance(size, SYMBOLIC_TYPES) else int(size) for size in value.shape)
    return _TensorFacts(value.dtype, value.device.type, shape)


def _why_not(result: object, facts: _TensorFacts) -> str | None:
    """What a result is, where it is not the tensor that the facts are of."""
    if not isinstance(result, torch.Tensor):
        return f"{result!r:.60} ({type(result).__name__})"
    found = _TensorFacts(result.dtype, result.device.type, tuple(result.shape))
    sizes_fit = len(found.shape) == len(facts.shape) and all(
        size in (None, actual) for size, actual in zip(facts.shape, found.shape, strict=True)
    )
    return None if sizes_fit and found[:2] == facts[:2] else str(found)


def _why_not_results(results: object, expected: int) -> str:
    if not isinstance(results, (tuple, list)):
        return f"returned a {type(results).__name__} where a tuple or list of outputs is expected"
    return f"returned {len(results)} outputs where the graph has {expected}"
