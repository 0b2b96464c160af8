"""Which frames are captured: those asked for, and of the others, met by the hook, those that work on tensors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType
from typing import Any

import torch

import graphwright._native as _native
from graphwright.markers import why_disabled
from graphwright.trust import is_looked_into, is_trusted_module
from graphwright.weak_identity import WeakIdentityMap

_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_TRACING = frozenset({"settrace", "setprofile", "set_trace", "breakpoint"})
_FUNCTIONS = (FunctionType, BuiltinFunctionType)
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
    if not code.co_argcount and "__class__" in code.co_freevars and "super" in code.co_names:
        return "super() looks for an argument of the function, which takes none"  # code made of it takes some
    if not _TRACING.isdisjoint(code.co_names):
        return "it installs a trace or profile function, which would meet other frames and lines than in eager"
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


def may_see_tensors(function: FunctionType, args: tuple[object, ...]) -> bool:
    """Whether a tensor, a module, or something of torch is in reach of a frame: a look around, not an analysis.

    What is looked at: arguments, closure, the globals that the code and functions in it name; in each of them, items
    and attributes.
    """
    names = set(_names_in(function.__code__))
    if "torch" in names:
        return True
    namespace = function.__globals__
    seen = [*args, *(_cell_contents(cell) for cell in function.__closure__ or ())]
    seen += [namespace[name] for name in names if name in namespace]
    return any(map(_leads_to_tensors, seen))


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _cell_contents(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _leads_to_tensors(value: Any) -> bool:
    if isinstance(value, CellType):
        value = _cell_contents(value)
    if _is_of_torch(value) or _holds_tensor(value):
        return True
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return False
    return type(attributes) is dict and any(_is_of_torch(v) or _holds_tensor(v) for v in [*attributes.values()])


def _is_of_torch(value: Any) -> bool:
    if isinstance(value, torch.nn.Module | torch.Tensor) or value is torch:
        return True
    if isinstance(value, MethodType):
        return _is_of_torch(value.__self__)
    if isinstance(value, type):
        return issubclass(value, torch.nn.Module | torch.Tensor)
    module = getattr(value, "__module__", None) if isinstance(value, _FUNCTIONS) else None
    return isinstance(module, str) and is_trusted_module(module) and module.partition(".")[0] == "torch"


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if type(value) in (list, tuple):
        return any(isinstance(v, torch.Tensor) for v in value)
    if type(value) is dict:
        return any(isinstance(v, torch.Tensor) for v in value.values())
    return False
