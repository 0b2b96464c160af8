"""Inlining: the body of a called Python function becomes part of the frame that calls it."""

from __future__ import annotations

import inspect
import sys
import threading
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


class _RecursionRoom:
    """The recursion limit, raised while any thread captures: it is one for all threads of the process.

    Source: `Py_SetRecursionLimit` in CPython's Python/ceval.c.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._captures = 0
        self._before = self._raised = 0

    def enter(self, frames: int) -> None:
        """Make room for so many frames more than the program has."""
        with self._lock:
            if self._captures == 0:
                self._before = self._raised = sys.getrecursionlimit()
            self._captures += 1
            self._raised = max(self._raised, self._before + frames)
            sys.setrecursionlimit(self._raised)

    def leave(self) -> None:
        """Give the room back when the last capture is over; a limit that the program has set meanwhile stays."""
        with self._lock:
            self._captures -= 1
            if self._captures == 0 and sys.getrecursionlimit() == self._raised:
                sys.setrecursionlimit(self._before)


_RECURSION_ROOM = _RecursionRoom()


@contextmanager
def enough_recursion(depth_limit: int) -> Iterator[None]:
    """Let the translator nest as deep as the settings allow, for the calls of the traced program nest in its own."""
    _RECURSION_ROOM.enter(depth_limit * _OWN_FRAMES_PER_CALL)
    try:
        yield
    finally:
        _RECURSION_ROOM.leave()
