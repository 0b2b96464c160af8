"""`torch.autograd.Function`: one graph node where its methods only compute; where they do more, a graph break.

Capture runs the methods on fakes, and AOTAutograd traces them once and never runs them again. So what they read from
outside has to be guarded, and what they do beside computing would be done at the wrong times.
"""

from __future__ import annotations

import builtins
import dis
import types
import weakref
from collections.abc import Iterator
from typing import Any, Final

import torch

import graphwright.graph_breaks as gb
from graphwright.builtin_calls.registry import handles
from graphwright.trust import is_trusted_module
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.function import UserFunctionVariable
from graphwright.variables.misc import PythonModuleVariable

_APPLY: Final = vars(torch.autograd.Function)["apply"].__func__
_METHODS: Final = ("forward", "setup_context", "backward", "vjp", "jvp")
_PURE_MODULES: Final = frozenset(
    {"torch", "math", "cmath", "operator", "functools", "itertools", "collections", "numbers", "typing", "dataclasses"}
)
"""Modules whose functions only compute, and do not change; `random`, `os` or `warnings` do more."""
_EFFECTS_BY_NAME: Final = {
    "mark_dirty": "says that it writes to an argument, which AOTAutograd replays without gradients",
    "manual_seed": "seeds random numbers",
    "seed": "seeds random numbers",
}
# fmt: off
_PURE_BUILTINS: Final = frozenset(
    {
        "abs", "all", "any", "bool", "dict", "divmod", "enumerate", "filter", "float", "frozenset", "int",
        "isinstance", "issubclass", "len", "list", "map", "max", "min", "pow", "range", "reversed", "round", "set",
        "slice", "sorted", "str", "sum", "tuple", "type", "zip", "AssertionError", "NotImplementedError",
        "RuntimeError", "TypeError", "ValueError", "NotImplemented", "Ellipsis",
    }
)
_IMMUTABLE: Final = (
    int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format,
)
# fmt: on


class AutogradFunctionCall:
    """A `torch.autograd.Function` as the target of a graph node: forward and backward run as the user wrote them.

    The graph lives with a code object, where the garbage collector does not look, so the class is held weakly.
    """

    __module__ = "graphwright.graph"

    def __init__(self, function: type[torch.autograd.Function]) -> None:
        self._function = weakref.ref(function)
        self.__name__ = f"apply_{function.__name__}"

    @property
    def function(self) -> type[torch.autograd.Function]:
        """The class.

        Raises:
            ReferenceError: it is gone.
        """
        function = self._function()
        if function is None:
            raise ReferenceError(f"the graph calls {self.__name__}, but the class of that autograd function is gone")
        return function

    def __call__(self, *args: Any) -> Any:
        return _APPLY(self.function, *args)  # which is what is called: the class may have an `apply` of its own


@handles(_APPLY)
def apply_autograd_function(tx: Tx, args: list[VariableTracker], kwargs: Kwargs) -> VariableTracker:
    """`SomeFunction.apply(*args)`."""
    function = args[0].as_python_constant()
    reading = _Reading(tx)
    for name in _METHODS:
        method = args[0].getattr(tx, name).realize()
        if isinstance(method, UserFunctionVariable):
            reason = reading.why_impure(method, context=True)
        else:
            reason = f"is a {method.type_name()}"
        if reason is not None:
            tx.graph_break(gb.UNKNOWN_CALL, f"autograd function {function.__name__}, whose {name} {reason}")
    return tx.capture.output.call_op(tx, "call_function", AutogradFunctionCall(function), args[1:], kwargs)


class _Reading:
    """Reads functions for what they do beside computing; what they read of the world is guarded."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._seen: set[types.CodeType] = set()

    def why_impure(self, function: UserFunctionVariable, *, context: bool = False) -> str | None:
        """What a function does that capture must not do, or leave out; None where it only computes.

        Args:
            function: the function.
            context: whether its first argument is the context of an autograd function, which it may write to.
        """
        if function.code in self._seen:
            return None
        self._seen.add(function.code)
        if is_trusted_module(function.fn.__globals__.get("__name__")):  # a decorator, around functions of the program
            held = [function.free_variable(self._tx, name) for name in function.code.co_freevars]
            inner = [self.why_impure(f, context=context) for f in held if isinstance(f, UserFunctionVariable)]
            return next(filter(None, inner), None)
        defaults = (*(function.fn.__defaults__ or ()), *(function.fn.__kwdefaults__ or {}).values())
        if not all(isinstance(default, _IMMUTABLE) for default in defaults):
            return "has a default that may change"
        first = function.code.co_varnames[0] if context and function.code.co_argcount else None
        return next(filter(None, self._effects(function, function.code, first)), None)

    def _effects(self, function: UserFunctionVariable, code: types.CodeType, first: str | None) -> Iterator[str | None]:
        before: dis.Instruction | None = None
        for inst in dis.get_instructions(code):
            yield self._why_read(function, inst)
            yield self._why_written(function, inst, before, first)
            if inst.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                yield _why_attribute(str(inst.argval))
                if before is not None and before.opname == "LOAD_GLOBAL":
                    yield self._why_attribute_of_global(function, str(before.argval))
            before = inst
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from self._effects(function, constant, None)

    def _why_read(self, function: UserFunctionVariable, inst: dis.Instruction) -> str | None:
        opname, name = inst.opname, str(inst.argval)
        if opname == "LOAD_GLOBAL":
            return self._why_global(function, name)
        if opname in ("LOAD_DEREF", "LOAD_CLASSDEREF") and name in function.code.co_freevars:
            return self._why_value(
                function.free_variable(self._tx, name), f"variable {name!r} of an enclosing function"
            )
        if opname == "IMPORT_NAME" and not _is_pure_module(name):
            return f"imports {name}"
        if opname in ("LOAD_NAME", "LOAD_BUILD_CLASS", "YIELD_VALUE", "SEND"):
            return "is more than a function that computes"
        return None

    def _why_written(
        self, function: UserFunctionVariable, inst: dis.Instruction, before: dis.Instruction | None, first: str | None
    ) -> str | None:
        opname, name = inst.opname, str(inst.argval)
        if opname in ("STORE_DEREF", "DELETE_DEREF") and name in function.code.co_freevars:
            return f"writes to {name!r} of an enclosing function"
        if opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            return f"writes to the global {name!r}"
        on_context = before is not None and before.opname == "LOAD_FAST" and before.argval == first
        if opname in ("STORE_ATTR", "DELETE_ATTR") and not on_context:
            return f"sets the attribute {name!r} of something"
        return None

    def _why_attribute_of_global(self, function: UserFunctionVariable, name: str) -> str | None:
        held = function.globals_variable(self._tx).lookup(self._tx, ConstantVariable(name))
        is_function = held is not None and isinstance(held.realize(), UserFunctionVariable)
        return f"reads an attribute of {name}()" if is_function else None

    def _why_global(self, function: UserFunctionVariable, name: str) -> str | None:
        held = function.globals_variable(self._tx).lookup(self._tx, ConstantVariable(name))
        if held is not None:
            return self._why_value(held.realize(), f"global {name!r}")
        return None if name in _PURE_BUILTINS or not hasattr(builtins, name) else f"calls {name}()"

    def _why_value(self, value: VariableTracker, what: str) -> str | None:
        if isinstance(value, UserFunctionVariable):
            return self.why_impure(value)
        if isinstance(value, PythonModuleVariable):
            pure = _is_pure_module(value.module.__name__)
        elif value.is_python_constant():
            known = value.as_python_constant()  # which is guarded
            pure = isinstance(known, _IMMUTABLE) or _is_pure_module(getattr(known, "__module__", None))
        else:
            pure = False
        return None if pure else f"reads the {what}, whose changes capture would not see"


def _is_pure_module(name: object) -> bool:
    return isinstance(name, str) and name.partition(".")[0] in _PURE_MODULES


def _why_attribute(name: str) -> str | None:
    return f"reads {name!r}" if name.startswith("_") else _EFFECTS_BY_NAME.get(name)
