"""Function transforms: `torch.func.vmap(f)` and its like, and calls of what they give.

The transform itself runs, on fake tensors, at capture time. The function it gets translates the user's function, under
the very levels of functorch that eager would have, so that whatever the user's function asks of its tensors has the
answer of eager, and what the transform refuses it refuses here.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

import graphwright.graph_breaks as gb
from graphwright.exc import GraphBreak
from graphwright.torch_compat import outside_fake_mode, tensor_version
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker
from graphwright.variables.bodies import TracedBody, trace_body
from graphwright.variables.structures import fakes_of, structure_of, tensors_of, variables_of
from graphwright.variables.tensor import TensorVariable

Runs = Callable[[Callable[..., Any], dict[str, Any], Any], Any]
"""Runs a transform: (the function, options, its arguments) -> result."""


class TransformVariable(VariableTracker):
    """What `torch.func.vmap(f, ...)` and the like give.

    Attributes:
        maker: the transform, which takes the function and options.
        target: the function that stands in graphs for a call.
        function: what is transformed.
        options: the transform's other arguments.
    """

    def __init__(
        self, maker: Callable[..., Any], target: Callable[..., Any], function: VariableTracker, options: dict[str, Any]
    ) -> None:
        self.maker = maker
        self.target = target
        self.function = function
        self.options = options

    def python_type(self) -> type:
        return types.FunctionType

    def hash_key(self, tx: Tx) -> Any:
        return self

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        def run(function: Callable[..., Any], options: dict[str, Any], arguments: Any) -> Any:
            return self.maker(function, **options)(*arguments[0], **arguments[1])

        what = f"torch.func.{self.maker.__name__}"
        return call_transform(tx, what, self.target, run, self.function, self.options, args, kwargs)

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(functools.partial(self.maker, **self.options))
        emit(self.function)
        emit.op("call", 1)

    def __repr__(self) -> str:
        return f"<torch.func.{self.maker.__name__} of {self.function}>"


def call_transform(
    tx: Tx,
    what: str,
    target: Callable[..., Any],
    run: Runs,
    function: VariableTracker,
    options: dict[str, Any],
    args: Args,
    kwargs: Kwargs,
) -> VariableTracker:
    """Run a transform at capture time and put its call into the graph."""
    call, result = traced_call(tx, what, run, function, options, args, kwargs)
    return tx.capture.output.call_with_body(tx, target, call, result)


def traced_call(
    tx: Tx,
    what: str,
    run: Runs,
    function: VariableTracker,
    options: dict[str, Any],
    args: Args,
    kwargs: Kwargs,
) -> tuple[tuple[Any, ...], Any]:
    """The arguments of the node that stands for the call of a transform, and what it gives on fakes."""
    output = tx.capture.output
    structure = arguments_of(tx, what, args, kwargs)
    translation = _Translation(tx, what, function)
    fakes = fakes_of(structure)
    given = tensors_of(fakes)
    versions = [tensor_version(t) for t in given]
    try:
        result = output.run_fake(tx, run, translation, options, fakes, what=what)
    except GraphBreak as refusal:
        refusal.hooked = False  # eager calls the function under the transform, where nothing can be captured
        if translation.failure is not None:
            raise translation.failure from None
        raise
    body = translation.body
    if body is None:
        tx.graph_break(gb.HIGHER_ORDER, f"{what} that does not call its function")
    if versions != [tensor_version(t) for t in given]:
        tx.graph_break(gb.HIGHER_ORDER, f"{what} of a function that writes to its arguments")
    return (output.body_node(body.module), options, structure, body.operands), result


def arguments_of(tx: Tx, what: str, args: Args, kwargs: Kwargs) -> Any:
    """The arguments of a call as a structure: a tuple, and a dict."""
    naming = f"{what} called"
    named = {k: structure_of(tx, v, naming) for k, v in kwargs.items()}
    return tuple(structure_of(tx, a, naming) for a in args), named


class PullbackVariable(VariableTracker):
    """The function in the result of `torch.func.vjp`: it lives between two nodes of the graph, and cannot leave it.

    Attributes:
        node: what gives it.
        on_fakes: the one that the transform gave for fake tensors.
    """

    def __init__(self, node: fx.Node, on_fakes: Callable[..., Any], target: Callable[..., Any]) -> None:
        self.node = node
        self.on_fakes = on_fakes
        self.target = target

    def python_type(self) -> type:
        return types.FunctionType

    def hash_key(self, tx: Tx) -> Any:
        return self

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        output = tx.capture.output
        what = "the function that torch.func.vjp gave"
        structure = arguments_of(tx, what, args, kwargs)

        def run(arguments: Any) -> Any:
            return self.on_fakes(*arguments[0], **arguments[1])

        result = output.run_fake(tx, run, fakes_of(structure), what=what)
        return output.call_with_body(tx, self.target, (self.node, structure), result)


class _Translation:
    """The function that a transform gets at capture time: it translates the user's function.

    Attributes:
        body: the user's function as a graph, once called.
        failure: what the translation raised.
    """

    def __init__(self, tx: Tx, what: str, function: VariableTracker) -> None:
        self._tx = tx
        self._what = what
        self._function = function
        self.body: TracedBody | None = None
        self.failure: Exception | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.body is not None:  # a transform in chunks, or over several bases
            operands = [node.meta["example_value"] for node in self.body.operands]
            return self.body.module(*tensors_of((args, kwargs)), *operands)
        try:
            with outside_fake_mode():
                self.body = trace_body(self._tx, self._what, [self._function], lambda: self._translate(args, kwargs))
        except Exception as failure:
            self.failure = failure
            raise
        return self.body.result

    def _translate(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> VariableTracker:
        tx = self._tx
        arguments = [(fake, tx.capture.output.bodies.argument(fake)) for fake in tensors_of((args, kwargs))]
        rest = iter(arguments)

        def of_tensor(fake: torch.Tensor) -> VariableTracker:
            return _argument(tx, fake, next(rest)[1])

        values = [variables_of(tx, value, of_tensor) for value in args]
        named = {key: variables_of(tx, value, of_tensor) for key, value in kwargs.items()}
        return tx.call(self._function, values, named)


def _argument(tx: Tx, fake: torch.Tensor, node: fx.Node) -> VariableTracker:
    """The variable of an argument: what a transform hands on untouched is what it was outside."""
    output = tx.capture.output
    return output.variable_of(fake) or output.remember(TensorVariable(node, fake))
