"""What replacement code does when its graph raises: the call runs again, in eager, where that comes to the same.

The graph is called first and side effects are replayed after it, so an operation that fails leaves undone what the
program did before that operation. Unless the graph itself has changed anything by then, the original code, run from
its start with the same arguments, does all of that, and raises its own exception with its own traceback. It is part of
the replacement code, after an exception handler, and costs nothing until then.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import CodeType
from typing import Any

import graphwright.events as events
from graphwright.bytecode import CodeBuilder, Label, decode
from graphwright.codegen import EXTRAS, INPUTS
from graphwright.exc import CodeLocation, GraphwrightError
from graphwright.frames.failure_traceback import show_user_lines
from graphwright.torch_compat import is_signal
from graphwright_plugins import PluginError


@dataclass(frozen=True)
class GraphFailure:
    """What is known of a graph that may raise, and of the frame it belongs to."""

    code: CodeType
    """The original code."""
    graph_name: str
    backend: str
    location: CodeLocation
    is_repeatable: bool
    """Whether the graph changes nothing: no input, no random state, nothing that is unknown."""
    has_effects: bool
    """Whether Python objects are changed after the graph."""
    may_fall_back: bool = True
    """Whether the call may run in eager where the backend itself says that it failed."""

    def emit_handler(self, builder: CodeBuilder, failed: Label) -> None:
        """Emit the handler of what the graph raises.

        The code of the original becomes part of the builder's code; its cells must be cells there, those that the
        builder has not made yet are its `late_cells`.
        """
        facts = {
            "function": self.code.co_qualname,
            "graph_name": self.graph_name,
            "backend": self.backend,
            "location": self.location,
            "runs_in_eager": self.is_repeatable,
            "loses_effects": self.has_effects and not self.is_repeatable,
        }
        report = functools.partial(_report, facts, self.may_fall_back)
        raise_it = Label("raise what the graph raised")
        builder.label(failed)
        builder.push_exc_info()
        builder.load_const(report)
        builder.copy(2)
        builder.call(1)
        if self.is_repeatable:
            builder.pop_jump_if_false(raise_it)
            self._emit_original(builder)
            builder.label(raise_it)
        else:
            builder.pop_top()
        builder.swap()
        builder.pop_except()
        builder.reraise()

    def _emit_original(self, builder: CodeBuilder) -> None:
        builder.pop_top()
        builder.pop_except()
        for name in (INPUTS, EXTRAS):  # locals() is to show the user's variables alone
            builder.delete_fast(name)
        for name in made_cells(self.code):
            if name in builder.late_cells:
                builder.make_cell(name)
        start = Label("the original")
        builder.jump(start)
        builder.splice(decode(self.code), {0: start})


def made_cells(code: CodeType) -> tuple[str, ...]:
    """The cells that code makes at its start; others it is given, as the code of resume functions is."""
    instructions = decode(code).instructions
    body = next(i.index for i in instructions if i.opname == "RESUME")
    return tuple(i.argval for i in instructions[:body] if i.opname == "MAKE_CELL")


def _report(facts: dict[str, Any], may_fall_back: bool, error: BaseException) -> bool:
    """Emit the event of a failure; say whether the call is to run in eager.

    What is no `Exception` (an interrupt, an exit) asks to leave, as a checkpoint does that has recomputed enough, and
    an error of ours says what went wrong already. An error of the plugin contract is the backend's for certain: then
    what the user asked for in that case is done.
    """
    if not isinstance(error, Exception) or isinstance(error, GraphwrightError) or is_signal(error):
        return False
    if isinstance(error, PluginError) and not may_fall_back:
        facts = {**facts, "runs_in_eager": False, "is_asked_for": True}
    if not facts["runs_in_eager"]:
        show_user_lines(error)
    events.emit(events.GraphFailed(error=error, **facts))
    return bool(facts["runs_in_eager"])
