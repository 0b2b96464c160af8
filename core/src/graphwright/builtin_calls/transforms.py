"""Handlers of `torch.func`: transforms of functions."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.func
from torch import fx

import graphwright.builtin_calls.transform_calls as targets
import graphwright.graph_breaks as gb
from graphwright.builtin_calls.registry import handles
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.function import CODE_RULES
from graphwright.variables.sequence import TupleVariable
from graphwright.variables.structures import leaves_of, structure_of
from graphwright.variables.transforms import PullbackVariable, TransformVariable, call_transform, traced_call

VTs = list[VariableTracker]
_PULLBACK = 1
"""The place of the function in what `vjp` gives."""
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


def _register_made(maker: Transform, target: Transform) -> None:
    """A function that a transform gave outside is known by its code; what it was made of is in its closure."""
    made: Any = maker(_nothing)
    names = [name for name in inspect.signature(maker).parameters if name in made.__code__.co_freevars]

    def call(tx: Tx, made: Any, args: Sequence[VariableTracker], kwargs: Kwargs) -> VariableTracker:
        given = {name: made.free_variable(tx, name) for name in names}
        function = given.pop("func")
        return TransformVariable(maker, target, function, options_of(tx, maker, given)).call(tx, args, kwargs)

    CODE_RULES.setdefault(made.__code__, call)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """A function to try the options of a transform with."""


for _maker, _target in _MAKERS:
    _register_maker(_maker, _target)
    _register_made(_maker, _target)


@handles(torch.func.jvp)
def jvp(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`torch.func.jvp(func, primals, tangents)`."""
    given = bound_arguments(tx, torch.func.jvp, args, kwargs)
    function, primals, tangents = given.pop("func"), given.pop("primals"), given.pop("tangents")
    options = options_of(tx, torch.func.jvp, given)

    def run(translated: Callable[..., Any], options: dict[str, Any], arguments: Any) -> Any:
        return torch.func.jvp(translated, *arguments[0], **options)

    return call_transform(tx, "torch.func.jvp", targets.jvp, run, function, options, [primals, tangents], {})


@handles(torch.func.vjp)
def vjp(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`torch.func.vjp(func, *primals)`: the result, and the function that pulls cotangents back."""
    given = bound_arguments(tx, torch.func.vjp, args, kwargs)
    function, primals = given.pop("func"), list(given.pop("primals", ()))
    options = options_of(tx, torch.func.vjp, given)

    def run(translated: Callable[..., Any], options: dict[str, Any], arguments: Any) -> Any:
        return torch.func.vjp(translated, *arguments[0], **options)

    call, results = traced_call(tx, "torch.func.vjp", run, function, options, primals, {})
    output = tx.capture.output
    node = output.create_node("call_function", targets.vjp, call, {}, None)
    items: VTs = []
    for index, result in enumerate(results):
        # The function's own example would keep the translation alive.
        example = None if index == _PULLBACK else result
        part = output.create_node("call_function", operator.getitem, (node, index), {}, example)
        if index == _PULLBACK:
            items.append(PullbackVariable(part, result, targets.pull_back))
        else:
            items.append(output.result_of(tx, result, part))
    return TupleVariable(items)
