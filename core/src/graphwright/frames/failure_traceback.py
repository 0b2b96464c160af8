"""Tracebacks of errors that a graph raises: the program's lines in place of the graph's.

Where the call does not run again in eager, the error comes from the graph's code, whose nodes know where the program
was. A backend that runs nodes (those captured, or AOTAutograd's, which carry the same notes) says by the line of that
code which of them failed; of other backends' errors nothing is known.
"""

from __future__ import annotations

import re
from types import CodeType, FrameType, TracebackType

from torch import fx

from graphwright.exc import CodeLocation
from graphwright.torch_compat import node_at_line

_PLACE = re.compile(r'^  File "(?P<filename>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_UNKNOWN = -1
"""An instruction that has no position: then the line of the traceback's entry is shown."""


def show_user_lines(error: BaseException) -> None:
    """Replace the graph's frames in the traceback of an error by those that the program would have had.

    Args:
        error: what the graph raised; its traceback begins in the frame that called the graph.
    """
    outermost = error.__traceback__
    found = _failed_node(outermost)
    if outermost is None or found is None:
        return
    node, rest = found
    places = [
        CodeLocation(match["filename"], int(match["line"]), match["function"])
        for match in _PLACE.finditer(node.meta.get("stack_trace") or "")
    ]
    if not places:
        return
    for place in reversed(places[1:]):
        rest = TracebackType(rest, _frame_at(place), _UNKNOWN, place.line)
    error.__traceback__ = TracebackType(rest, outermost.tb_frame, _UNKNOWN, places[0].line)


def _failed_node(entry: TracebackType | None) -> tuple[fx.Node, TracebackType | None] | None:
    """The node that raised, and what is below it in the traceback where that is the operation's own Python code."""
    while entry is not None:
        module = entry.tb_frame.f_locals.get("self")
        if isinstance(module, fx.GraphModule) and entry.tb_frame.f_code is module.forward.__func__.__code__:  # type: ignore[attr-defined]
            node = node_at_line(module, entry.tb_lineno)
            if node is not None:
                return node, entry.tb_next if _calls_python(node) else None
        entry = entry.tb_next
    return None


def _calls_python(node: fx.Node) -> bool:
    """Whether a node calls a function written in Python, whose frames eager has too."""
    return isinstance(getattr(node.target, "__code__", None), CodeType)


def _frame_at(place: CodeLocation) -> FrameType:
    """A frame that was at a place of the program: of code that has its names and does nothing else."""
    code = compile("\n" * (place.line - 1) + "raise RuntimeError", place.filename, "exec")
    named = code.replace(co_name=place.function, co_qualname=place.function)
    try:
        exec(named, {})
    except RuntimeError as error:
        traceback = error.__traceback__
        assert traceback is not None
        assert traceback.tb_next is not None
        return traceback.tb_next.tb_frame
    raise AssertionError("the code raises")
