"""The autograd history of fakes: needed while a graph is written, in the way afterwards."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from graphwright_plugins.graphs.facts import tensors_in


def forget_history(module: fx.GraphModule) -> None:
    """Cut the fakes of a compiled graph off their history where that leads to user code.

    The graph lives on with a code object, where the garbage collector does not look; a custom autograd function that
    was run on fakes would live as long.
    """
    metas = [node.meta for node in module.graph.nodes if "example_value" in node.meta]
    if not any(_is_of_user_function(fake) for meta in metas for fake in tensors_in(meta["example_value"])):
        return
    for meta in metas:
        meta["example_value"] = _without_history(meta["example_value"])


def _is_of_user_function(fake: torch.Tensor) -> bool:
    try:
        history = fake.grad_fn
    except RuntimeError:  # a view made under no_grad, whose base was written to since: autograd refuses to say
        return False
    return isinstance(history, torch.autograd.function.BackwardCFunction)


def _without_history(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().requires_grad_(value.requires_grad)
    if isinstance(value, (tuple, list)):
        make = getattr(type(value), "_make", type(value))
        return make([_without_history(v) for v in value])
    return value
