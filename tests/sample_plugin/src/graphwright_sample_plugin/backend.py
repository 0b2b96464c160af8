"""The backend `sample`: operator-level graphs, simplified by one rewrite, run in eager mode."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins import Capabilities, CompiledGraph, Unavailable, aot_compile, run_in_eager

from .options import SampleOptions

_NEUTRAL: Final = {torch.ops.aten.add.Tensor: 0, torch.ops.aten.sub.Tensor: 0, torch.ops.aten.mul.Tensor: 1}


class SampleBackend:
    """Removes `x + 0`, `x - 0` and `x * 1` where they change neither value nor dtype."""

    name: Final = "sample"
    capabilities: Final = Capabilities()
    options_type: Final = SampleOptions
    modes: Final[Mapping[str, Mapping[str, Any]]] = {"plain": {"simplify": False}}
    api_version: Final = (1, 0)

    def available(self) -> Unavailable | None:
        """It works everywhere; a backend for a device would say here what is missing and how to get it."""
        return None

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: SampleOptions) -> CompiledGraph:
        """Let AOTAutograd make the graphs of operators, for forward and backward, and compile each of them."""

        def compile_operators(operators: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            if options.simplify:
                remove_neutral_operators(operators, options.max_removed)
            return run_in_eager(operators, inputs)

        return aot_compile(graph, example_inputs, compile_operators)


def remove_neutral_operators(graph: fx.GraphModule, limit: int | None = None) -> int:
    """Take operators that change nothing out of the graph.

    Returns:
        How many were removed.
    """
    neutral = [node for node in graph.graph.nodes if _is_neutral(node)][:limit]
    for node in neutral:
        node.replace_all_uses_with(node.args[0])
        graph.graph.erase_node(node)
    graph.recompile()
    return len(neutral)


def _is_neutral(node: fx.Node) -> bool:
    if node.op != "call_function" or node.target not in _NEUTRAL or node.kwargs or len(node.args) != 2:
        return False
    operand, number = node.args
    # An output must stay a tensor of its own: without the operator it would be the operand itself.
    if not isinstance(operand, fx.Node) or any(user.op == "output" for user in node.users):
        return False
    if type(number) not in (int, float) or number != _NEUTRAL[node.target]:
        return False
    before, after = operand.meta.get("val"), node.meta.get("val")
    return isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor) and before.dtype == after.dtype


sample = SampleBackend()
