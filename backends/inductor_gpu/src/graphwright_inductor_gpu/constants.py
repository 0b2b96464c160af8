"""Outputs of a graph that are plain numbers, which Inductor does not take: left out, and put back into its results."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from torch import fx

Results: TypeAlias = tuple[Any, ...]
"""The results of a graph with `COMPUTED` wherever it has something to compute."""


class _Computed:
    """The type of `COMPUTED`."""

    def __reduce__(self) -> str:
        return "COMPUTED"  # saved and loaded, it is the same object


COMPUTED: Final = _Computed()
"""Stands for a result that the graph computes."""


def without_constants(graph: fx.GraphModule) -> tuple[fx.GraphModule, Results | None]:
    """The graph without those of its outputs that are constants, another one, and its results; None without any."""
    outputs = graph.graph.output_node().args[0]
    if not isinstance(outputs, (tuple, list)) or not any(map(_is_constant, outputs)):
        return graph, None
    own = copy.deepcopy(graph.graph)
    last = own.output_node()
    own_outputs: Any = last.args[0]
    last.args = (tuple(value for value in own_outputs if not _is_constant(value)),)
    return fx.GraphModule(graph, own), tuple(value if _is_constant(value) else COMPUTED for value in outputs)


def with_constants(function: Callable[..., Any], results: Results) -> Callable[..., Any]:
    """The function, its results completed by the constants among these."""

    def call(*inputs: Any) -> Any:
        computed = iter(function(*inputs))
        return tuple(next(computed) if value is COMPUTED else value for value in results)

    return call


def _is_constant(value: Any) -> bool:
    return value is not None and not isinstance(value, fx.Node)
