"""What a frame holds besides stack and variables, and what all frames of one capture share."""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol

import graphwright.graph_breaks as gb
from graphwright.exc import CodeLocation, GraphBreak
from graphwright.torch_compat import TORCH_FOLDER
from graphwright.variables.base import Args, Capture, Emitter, Kwargs, Tx, VariableTracker

if TYPE_CHECKING:
    from graphwright.bytecode import Instruction
    from graphwright.graph_breaks import GraphBreakKind

_OWN_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep


class FrameCapture(Capture, Protocol):
    """What the translator needs of a capture beyond what variables see."""

    frames: CallStack


class NullVariable(VariableTracker):
    """CPython's NULL on the value stack; never a Python value."""

    def python_type(self) -> type:
        return NullVariable

    def __repr__(self) -> str:
        return "<NULL>"


NULL = NullVariable()


class MethodReference(VariableTracker):
    """A method about to be called: `owner.name` without a bound method made for it.

    Lives on the value stack between LOAD_METHOD and CALL only.
    """

    def __init__(self, owner: VariableTracker, name: str) -> None:
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        return type(getattr(self.owner.python_type(), self.name))

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.owner.call_method(tx, self.name, args, kwargs)

    def reconstruct(self, emit: Emitter) -> None:
        emit(self.owner)
        emit.op("load_attr", self.name)

    def __repr__(self) -> str:
        return f"<method {self.name} of {self.owner}>"


@dataclass(slots=True, eq=False)
class HandledException:
    """The exception a frame or generator is handling: CPython's `_PyErr_StackItem`."""

    value: VariableTracker | None = None
    previous: HandledException | None = None
    """That of the frame which resumed this generator, while it runs."""

    def topmost(self) -> VariableTracker | None:
        """What `sys.exc_info()` sees: the innermost exception being handled."""
        item: HandledException | None = self
        while item is not None:
            if item.value is not None:
                return item.value
            item = item.previous
        return None


@dataclass(slots=True, eq=False)
class WithBlock:
    """A `with` block that was entered."""

    manager: VariableTracker
    exit: VariableTracker
    """What is called at its end; it lies on the stack at `depth` as long as the block is open."""
    depth: int


@dataclass(slots=True, eq=False)
class Returned:
    """The frame ended with a value."""

    value: VariableTracker


@dataclass(slots=True, eq=False)
class Yielded:
    """The frame is suspended and hands out a value."""

    value: VariableTracker


@dataclass(slots=True, eq=False)
class Stopped:
    """The root frame was stopped before an instruction, as asked; its state is that before the instruction."""

    instruction: Instruction


Outcome = Returned | Yielded | Stopped


class StoppedInside(BaseException):
    """Translation came to the instruction it was to stop before, in a frame that may be an inlined one.

    A signal that no handler of Python exceptions may take for its own.
    """

    def __init__(self, frame: Any) -> None:
        super().__init__(frame)
        self.frame = frame


class Frame(Protocol):
    """A frame as the call stack sees it."""

    code: CodeType

    @property
    def parent(self) -> Frame | None:
        """The frame that called or resumed it."""

    @property
    def line(self) -> int:
        """The line being translated."""

    def release(self) -> None:
        """Let go of all values, when the capture has ended."""


class SuspendedFrame(Protocol):
    """A generator as the call stack sees it."""

    born_at: int

    def needs_closing(self) -> bool:
        """Whether dropping the generator now would run code of its."""


@dataclass(slots=True, eq=False)
class CallStack:
    """The frames that one capture is translating, innermost last, and counts over all of them."""

    instruction_limit: int
    depth_limit: int
    current: Frame | None = None
    depth: int = 0
    instructions: int = 0
    generators: list[SuspendedFrame] = field(default_factory=list)
    stop_before: int = -1
    """The instruction, counted over all frames, before which translation stops with `StoppedInside`."""
    limit_before_first_op: int = sys.maxsize
    """Instructions after which translation stops where the graph has no operation yet."""
    tells_instructions: bool = False
    """Whether somebody wants to know of each instruction."""
    translated: list[Frame] = field(default_factory=list)
    """All frames of the capture."""
    watched: list[VariableTracker] = field(default_factory=list)
    """Arguments of the root frame that run code when their last reference goes, which a frame may hold."""
    raised_at: CodeLocation | None = None
    """Where the traced program last raised an exception."""

    def enter(self, frame: Frame) -> Frame | None:
        """Make `frame` the innermost one; returns what `leave` takes."""
        if self.depth >= self.depth_limit:
            raise self.graph_break(gb.TOO_DEEP, f"{self.depth} nested calls at {frame.code.co_qualname}()")
        self.depth += 1
        outer, self.current = self.current, frame
        return outer

    def leave(self, outer: Frame | None) -> None:
        """Undo `enter`."""
        self.depth -= 1
        self.current = outer

    def release(self) -> None:
        """Let go of what the frames hold."""
        for frame in self.translated:
            frame.release()
        self.translated.clear()
        self.watched.clear()
        self.generators.clear()

    def frames(self) -> list[Frame]:
        """All frames, innermost first."""
        found: list[Frame] = []
        frame = self.current
        while frame is not None:
            found.append(frame)
            frame = frame.parent
        return found

    def location(self) -> CodeLocation:
        """The innermost line of the user's code: frames inside torch are passed over."""
        frames = self.frames()
        if not frames:
            return CodeLocation("<unknown>", 0, "<unknown>")
        return _location(next((f for f in frames if not _is_internal(f.code.co_filename)), frames[-1]))

    def user_stack(self) -> tuple[CodeLocation, ...]:
        """The lines of the user's code being translated, outermost first."""
        return tuple(_location(f) for f in reversed(self.frames()) if not _is_internal(f.code.co_filename))

    def stack_trace(self) -> str:
        """The user's stack in the form of a traceback, as graph nodes keep it."""
        lines = []
        for place in self.user_stack() or (self.location(),):
            lines.append(f'  File "{place.filename}", line {place.line}, in {place.function}\n')
            if place.text:
                lines.append(f"    {place.text}\n")
        return "".join(lines)

    def graph_break(self, kind: GraphBreakKind, detail: str) -> GraphBreak:
        """The signal that stops capture here."""
        signal = GraphBreak(kind, detail, self.location())
        signal.user_stack = self.user_stack()
        signal.frames = tuple(self.frames())
        return signal


def _is_internal(filename: str) -> bool:
    return filename.startswith((TORCH_FOLDER, _OWN_FOLDER))


def _location(frame: Frame) -> CodeLocation:
    code, line = frame.code, frame.line
    return CodeLocation(code.co_filename, line, code.co_name, linecache.getline(code.co_filename, line).strip())
