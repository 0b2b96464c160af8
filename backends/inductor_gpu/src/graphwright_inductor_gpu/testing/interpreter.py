"""Runs Triton kernels by Triton's interpreter, in a process where Triton compiles.

Triton offers this only for a whole process, by `TRITON_INTERPRET=1` before it is imported: then every function is made
for the interpreter, Triton's own library included, and nothing can be compiled. Here kernels and the library functions
they call are made for the interpreter while one kernel runs, and are as before afterwards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any, Final, TypeAlias

import numpy as np
import triton.language as tl
from triton.language import core, random, standard
from triton.language.extra import libdevice
from triton.runtime.interpreter import GridExecutor, InterpretedFunction
from triton.runtime.jit import JITFunction

from .libdevice import FUNCTIONS, on_cpu
from .patches import Patches
from .torch_compat import triton_helpers
from .triton_compat import interpreted_language, rewritten_functions

Grid: TypeAlias = tuple[int, int, int]

_LIBRARIES: Final[tuple[ModuleType, ...]] = (tl, core, standard, random, triton_helpers)
"""Where the functions that kernels call are, as attributes or by their own globals."""


class DeviceFunction(InterpretedFunction[Any]):  # type: ignore[misc]  # triton ships no types
    """A function that kernels call, made for the interpreter.

    Triton's own class patches the language at each call and never takes that back; here it is patched already.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.rewrite()(*args, **kwargs)


def run_interpreted(function: FunctionType, arguments: dict[str, Any], grid: Grid) -> None:
    """Run every program of a kernel's grid, one after the other.

    Args:
        function: The Python function below `triton.jit`.
        arguments: All its arguments by name; tensors are on the CPU, and are written to.
        grid: How many programs there are in each dimension.
    """
    with _interpreting(function), np.errstate(all="ignore"):  # a GPU warns of no infinity
        kernel = InterpretedFunction(function)
        GridExecutor(kernel.rewrite(), kernel.arg_names, grid)(**arguments)


@contextlib.contextmanager
def _interpreting(kernel: FunctionType) -> Iterator[None]:
    """Have everything that this kernel can call made for the interpreter."""
    with contextlib.ExitStack() as stack:
        for names in (kernel.__globals__, *map(vars, _LIBRARIES)):
            stack.callback(_restore, names, dict(names))
        stack.enter_context(rewritten_functions())
        stack.enter_context(interpreted_language())
        patches = stack.enter_context(Patches())
        for name, compute in FUNCTIONS.items():
            patches.set(libdevice, name, on_cpu(name, compute))
        made: dict[int, DeviceFunction] = {}
        for names in (kernel.__globals__, *map(vars, _LIBRARIES)):
            _replace_functions(names, made)
        yield


def _replace_functions(names: dict[str, Any], made: dict[int, DeviceFunction]) -> None:
    for name, value in list(names.items()):
        if isinstance(value, JITFunction):
            names[name] = made.setdefault(id(value), DeviceFunction(value.fn))


def _restore(names: dict[str, Any], before: dict[str, Any]) -> None:
    """Make a namespace what it was: Triton's rewriter adds its own globals to those of a function."""
    for name in names.keys() - before.keys():
        del names[name]
    names.update(before)
