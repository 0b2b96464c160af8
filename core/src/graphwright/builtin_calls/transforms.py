"""Handlers of `torch.func`: transforms of functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.func
from torch import fx

import graphwright.builtin_calls.transform_calls as targets
import graphwright.graph_breaks as gb
from graphwright.builtin_calls.registry import handles
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.structures import leaves_of, structure_of
from graphwright.variables.transforms import TransformVariable, call_transform

VTs = list[VariableTracker]
Transform = Callable[..., Any]

_MAKERS: tuple[tuple[Transform, Transform], ...] = (
    (torch.func.vmap, targets.vmap),
    (torch.func.grad, targets.grad),
    (torch.func.grad_and_value, targets.grad_and_value),
    (torch.func.jacrev, targets.jacrev),
    (torch.func.jacfwd, targets.jacfwd),
    (torch.func.hessian, targets.hessian),
)
"""Transforms that give a function, and what stands in the graph for a call of it."""


def bound_arguments(tx: Tx, fn: Transform, args: VTs, kwargs: Kwargs) -> dict[str, Any]:
    """The arguments of a call by the names of the parameters; breaks the graph where they do not fit."""
    try:
        return dict(inspect.signature(fn).bind(*args, **kwargs).arguments)
    except TypeError as error:
        tx.graph_break(gb.TORCH_OP_FAILED, f"{fn.__name__}: {error}")


def options_of(tx: Tx, fn: Transform, given: dict[str, Any]) -> dict[str, Any]:
    """Arguments that must be known while capturing."""
    options = {name: structure_of(tx, value, f"{fn.__name__} with option {name}") for name, value in given.items()}
    if any(isinstance(leaf, fx.Node) for leaf in leaves_of(options)):
        tx.graph_break(gb.HIGHER_ORDER, f"{fn.__name__} with a tensor as option")
    return options


def _register_maker(maker: Transform, target: Transform) -> None:
    @handles(maker)
    def transform(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
        given = bound_arguments(tx, maker, args, kwargs)
        function = given.pop("func")
        options = options_of(tx, maker, given)
        try:
            maker(_nothing, **options)
        except Exception as error:  # noqa: BLE001  eager will raise it too
            tx.graph_break(gb.TORCH_OP_FAILED, f"{maker.__name__}: {error}")
        return TransformVariable(maker, target, function, options)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """A function to try the options of a transform with."""


for _maker, _target in _MAKERS:
    _register_maker(_maker, _target)


@handles(torch.func.jvp)
def jvp(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`torch.func.jvp(func, primals, tangents)`."""
    given = bound_arguments(tx, torch.func.jvp, args, kwargs)
    function, primals, tangents = given.pop("func"), given.pop("primals"), given.pop("tangents")
    options = options_of(tx, torch.func.jvp, given)

    def run(translated: Callable[..., Any], options: dict[str, Any], arguments: Any) -> Any:
        return torch.func.jvp(translated, *arguments[0], **options)

    return call_transform(tx, "torch.func.jvp", targets.jvp, run, function, options, [primals, tangents], {})
