"""What graphs call where the program calls a function of a function: plain functions that take the body as a module.

They do what eager does, with the body in place of the user's function, so every backend can run or trace them. A body
takes the tensors among the arguments, in their order, and then the operands: the tensors that the user's function
found in its closure, which no transform touches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.func
import torch.utils.checkpoint

from graphwright.torch_compat import dispatch_modes_active, tag_activation_checkpoint
from graphwright.variables.structures import map_structure, tensors_of

Body = Callable[..., Any]
Operands = Sequence[torch.Tensor]
Options = dict[str, Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def function_of(body: Body, operands: Operands) -> Callable[..., Any]:
    """The body as the function that a transform takes."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return body(*tensors_of((args, kwargs)), *operands)

    return function


def _plain(value: Any) -> Any:
    """Arguments without the classes that an fx interpreter gives containers."""
    return map_structure(value, lambda leaf: leaf)


def _apply(maker: Callable[..., Any], body: Body, options: Options, arguments: Arguments, operands: Operands) -> Any:
    positional, named = _plain(arguments)
    return maker(function_of(body, operands), **_plain(options))(*positional, **named)


def vmap(body: Body, options: Options, arguments: Arguments, operands: Operands) -> Any:
    """`torch.func.vmap(body, **options)(*args, **kwargs)`."""
    return _apply(torch.func.vmap, body, options, arguments, operands)


def grad(body: Body, options: Options, arguments: Arguments, operands: Operands) -> Any:
    """`torch.func.grad(body, **options)(*args, **kwargs)`."""
    return _apply(torch.func.grad, body, options, arguments, operands)


def grad_and_value(body: Body, options: Options, arguments: Arguments, operands: Operands) -> Any:
    """`torch.func.grad_and_value(body, **options)(*args, **kwargs)`."""
    return _apply(torch.func.grad_and_value, body, options, arguments, operands)


def jacrev(body: Body, options: Options, arguments: Arguments, operands: Operands) -> Any:
    """`torch.func.jacrev(body, **options)(*args, **kwargs)`."""
    return _apply(torch.func.jacrev, body, options, arguments, operands)


def jacfwd(body: Body, options: Options, arguments: Arguments, operands: Operands) -> Any:
    """`torch.func.jacfwd(body, **options)(*args, **kwargs)`."""
    return _apply(torch.func.jacfwd, body, options, arguments, operands)


def hessian(body: Body, options: Options, arguments: Arguments, operands: Operands) -> Any:
    """`torch.func.hessian(body, **options)(*args, **kwargs)`."""
    return _apply(torch.func.hessian, body, options, arguments, operands)


def jvp(body: Body, options: Options, arguments: Arguments, operands: Operands) -> Any:
    """`torch.func.jvp(body, primals, tangents, **options)`."""
    positional, _ = _plain(arguments)
    return torch.func.jvp(function_of(body, operands), *positional, **_plain(options))


def vjp(body: Body, options: Options, arguments: Arguments, operands: Operands) -> Any:
    """`torch.func.vjp(body, *primals, **options)`; the function in its result stays between nodes of the graph."""
    positional, _ = _plain(arguments)
    return torch.func.vjp(function_of(body, operands), *positional, **_plain(options))


def pull_back(function: Callable[..., Any], arguments: Arguments) -> Any:
    """Call the function that `vjp` gave."""
    positional, named = _plain(arguments)
    return function(*positional, **named)


def checkpoint(body: Body, options: Options, operands: Operands) -> Any:
    """`torch.utils.checkpoint.checkpoint`: the body runs again in the backward.

    Under a compiler that traces the graph its operations are marked instead, for the partitioner to recompute.
    """
    if dispatch_modes_active():
        return tag_activation_checkpoint(body, *operands, use_reentrant=False)
    return torch.utils.checkpoint.checkpoint(body, *operands, use_reentrant=False, **options)
