"""Inlining: the body of a called Python function becomes part of the frame that calls it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import graphwright.graph_breaks as gb
from graphwright.symbolic.frame_state import Returned
from graphwright.symbolic.generator import GeneratorVariable
from graphwright.variables.base import Args, Kwargs, VariableTracker
from graphwright.variables.function import FunctionVariable

if TYPE_CHECKING:
    from graphwright.symbolic.translator import Translator

_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_OWN_FRAMES_PER_CALL = 40
"""Python frames of the translator that one inlined call may take, through operators, properties and the like."""


def inline_call(tx: Translator, fn: FunctionVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Call a Python function by translating its body."""
    code = fn.code
    if code.co_flags & _ASYNC:
        tx.graph_break(gb.GENERATOR_ESCAPES, f"call of the coroutine function {fn.qualname}()")
    slots = fn.bind(tx, args, kwargs)
    child = tx.child(code, slots, fn.free_cells(tx), fn.globals_variable(tx))
    outcome = child.run()
    assert isinstance(outcome, Returned)
    if isinstance(outcome.value, GeneratorVariable) and outcome.value.frame is child:
        outcome.value.made_by(fn, args, kwargs)
    return outcome.value


@contextmanager
def enough_recursion(depth_limit: int) -> Iterator[None]:
    """Let the translator nest as deep as the settings allow, for the calls of the traced program nest in its own."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, limit + depth_limit * _OWN_FRAMES_PER_CALL))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
