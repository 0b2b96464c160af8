"""`torch.utils.checkpoint.checkpoint`, which runs its function again in the backward."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils.checkpoint
from torch import fx
from torch.utils.checkpoint import noop_context_fn

import graphwright.builtin_calls.transform_calls as targets
import graphwright.graph_breaks as gb
from graphwright.builtin_calls.registry import handles
from graphwright.builtin_calls.transforms import bound_arguments
from graphwright.torch_compat import HigherOrderOperator, transforms_active
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.bodies import trace_in_place

VTs = list[VariableTracker]
_OPTIONS = ("preserve_rng_state", "determinism_check", "early_stop")


@handles(torch.utils.checkpoint.checkpoint)
def checkpoint(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """The function becomes a body; what it uses of the graph around becomes its operands."""
    given = bound_arguments(tx, torch.utils.checkpoint.checkpoint, args, kwargs)
    function, positional = given.pop("function"), list(given.pop("args", ()))
    named: Kwargs = {**given.pop("kwargs", {}), **given}
    _check_kind(tx, named)
    options = {name: named.pop(name).as_python_constant() for name in _OPTIONS if name in named}
    what = "torch.utils.checkpoint.checkpoint"
    roots = [function, *positional, *named.values()]
    body, result, made = trace_in_place(tx, what, roots, lambda: tx.call(function, positional, named))
    if _holds_operator(body.module):
        tx.graph_break(gb.HIGHER_ORDER, f"{what} of a function that calls torch.cond")
    output = tx.capture.output
    call = (output.body_node(body.module), options, body.operands)
    output.take_over(made, output.create_node("call_function", targets.checkpoint, call, {}, body.result))
    return result


def _holds_operator(body: fx.GraphModule) -> bool:
    """Whether an operator that takes bodies is in a body; the partitioner's marks are not made through those."""
    graphs = [module.graph for module in body.modules() if isinstance(module, fx.GraphModule)]
    return any(isinstance(node.target, HigherOrderOperator) for graph in graphs for node in graph.nodes)


def _check_kind(tx: Tx, named: Kwargs) -> None:
    """Break for the reentrant kind, which runs autograd inside of autograd, and for contexts of the user."""
    if transforms_active():
        tx.graph_break(gb.HIGHER_ORDER, "torch.utils.checkpoint.checkpoint under a function transform")
    if _constant(named.pop("use_reentrant", None), None) is not False:
        tx.graph_break(gb.HIGHER_ORDER, "torch.utils.checkpoint.checkpoint without use_reentrant=False")
    context_fn = named.pop("context_fn", None)
    if context_fn is not None and getattr(context_fn, "fn", None) is not noop_context_fn:
        tx.graph_break(gb.HIGHER_ORDER, "torch.utils.checkpoint.checkpoint with a context_fn")
    if _constant(named.pop("debug", None), default=False) is not False:
        tx.graph_break(gb.HIGHER_ORDER, "torch.utils.checkpoint.checkpoint with debug")


def _constant(variable: VariableTracker | None, default: Any) -> Any:
    return default if variable is None else variable.as_python_constant()
