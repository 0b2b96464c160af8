"""The code objects behind whatever can be compiled."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

import graphwright._native as _native
from graphwright.compiled_module import original_module
from graphwright.exc import CompileArgumentError


def codes_of(fn: Any, asked_by: str) -> Iterator[CodeType]:
    """The code of a function, method, partial, object with a `__call__`, or module, compiled or not.

    Args:
        fn: It.
        asked_by: The public function that asks, for the message.

    Raises:
        CompileArgumentError: `fn` has no Python code.
    """
    if isinstance(fn, torch.nn.Module):
        module = original_module(fn) or fn
        yield from codes_of(module.__dict__.get("forward") or inspect.getattr_static(type(module), "forward"), asked_by)
        return
    if isinstance(fn, (MethodType, classmethod, staticmethod)):
        fn = fn.__func__
    if isinstance(fn, functools.partial):
        yield from codes_of(fn.func, asked_by)
    elif isinstance(fn, _native.Compiled):
        yield from codes_of(fn.__wrapped__, asked_by)
    elif isinstance(fn, FunctionType):
        yield fn.__code__
    else:
        call = inspect.getattr_static(type(fn), "__call__", None)
        if not isinstance(call, (FunctionType, _native.Compiled)):
            raise CompileArgumentError(f"graphwright.{asked_by}: {fn!r} has no Python code")
        yield from codes_of(call, asked_by)
