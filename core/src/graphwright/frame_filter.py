"""Which frames are captured: those asked for, and of the others, met by the hook, those that work on tensors."""

from __future__ import annotations

import inspect
from types import CodeType, FunctionType
from typing import Any

import torch

import graphwright._native as _native
from graphwright.markers import why_disabled
from graphwright.trust import is_looked_into, is_trusted_module
from graphwright.weak_identity import WeakIdentityMap

_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_GENERATED_GRAPH = "<eval_with_key>"
"""The file name that torch.fx gives to the code of graphs."""


class ExpectedCode:
    """Code that somebody asked to have compiled, as opposed to what the frame hook happens to meet."""

    def __init__(self) -> None:
        self._codes: WeakIdentityMap[CodeType, bool] = WeakIdentityMap()

    def add(self, code: CodeType) -> None:
        """Note that code is to be captured whenever it is called."""
        self._codes.setdefault(code, True)

    def __contains__(self, code: CodeType) -> bool:
        return code in self._codes


EXPECTED_CODE = ExpectedCode()
"""The code that was asked for in this process."""


def why_never_captured(function: FunctionType) -> object | None:
    """Why a function is left to the interpreter for good, or None."""
    code = function.__code__
    if code.co_flags & _SUSPENDED:
        return "generators and coroutines run in eager; functions that they call are captured"
    if not code.co_flags & inspect.CO_NEWLOCALS:
        return "module and class bodies are not captured"
    disabled = why_disabled(function)
    if disabled is not None:
        return disabled
    if code in EXPECTED_CODE or _native.hook_depth() == 0:
        return None
    if code.co_filename.startswith((_GENERATED_GRAPH, "<frozen ", "<__array_function__")):
        return "generated code"
    module = function.__globals__.get("__name__")
    if not isinstance(module, str) or not is_library_module(module):
        return None
    return f"{module} is a library that is not captured by itself"


def is_library_module(module: str) -> bool:
    """Whether functions of a module are left alone when the frame hook meets them."""
    if module.startswith("torch.nn.modules.") and module != "torch.nn.modules.module":
        return False
    return is_trusted_module(module) or not is_looked_into(module)


def is_worth_capturing(function: FunctionType, args: tuple[object, ...]) -> bool:
    """Whether a frame that the hook met works on tensors, by its arguments or by naming torch."""
    if function.__code__ in EXPECTED_CODE or _native.hook_depth() == 0:
        return True
    if any(_holds_tensor(value) for value in args):
        return True
    if args and isinstance(args[0], torch.nn.Module) and function.__code__.co_name == "forward":
        return True
    names = function.__code__.co_names
    namespace = function.__globals__
    return any(namespace.get(name) is torch or _holds_tensor(namespace.get(name)) for name in names)


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if type(value) in (list, tuple):
        return any(isinstance(v, torch.Tensor) for v in value)
    if type(value) is dict:
        return any(isinstance(v, torch.Tensor) for v in value.values())
    return False
