"""Every private name of Triton that the harness uses. Tried with Triton 3.9 only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import numpy as np
import triton.experimental.gluon  # noqa: F401  Triton imports it at its first launch, which fails while interpreting
import triton.language as tl
from triton.language import core
from triton.runtime.interpreter import InterpretedFunction, TensorHandle, _patch_lang, interpreter_semantic

__all__ = ["TensorHandle", "interpreted_language", "interpreter_semantic", "make_tensor", "rewritten_functions"]


@contextlib.contextmanager
def interpreted_language() -> Iterator[None]:
    """Have Triton's language compute on arrays in this block."""
    scope = _patch_lang(_sees_the_language())
    try:
        yield
    finally:
        scope.restore()


@contextlib.contextmanager
def rewritten_functions() -> Iterator[None]:
    """Forget in the end what the interpreter has rewritten, since it keeps that by function for ever."""
    before = dict(InterpretedFunction.rewritten_fn)
    try:
        yield
    finally:
        InterpretedFunction.rewritten_fn.clear()
        InterpretedFunction.rewritten_fn.update(before)


def make_tensor(data: np.ndarray[Any, Any], dtype: Any, block: bool) -> Any:
    """A value of the interpreter's: a block, or one number."""
    kind = tl.block_type(dtype, list(data.shape)) if block else dtype
    return tl.tensor(TensorHandle(data, dtype), kind)


def _sees_the_language() -> Any:
    """A function whose globals are the modules that the interpreter is to patch."""
    return FunctionType((lambda: None).__code__, {"tl": tl, "core": core})
