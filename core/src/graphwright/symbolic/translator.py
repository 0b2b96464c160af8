"""The symbolic interpreter of one frame: its loop, its stack, its variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any, NoReturn, cast

import graphwright.events as events
import graphwright.graph_breaks as gb
import graphwright.variables.finalizers as finalizers
from graphwright.bytecode import DecodedCode, Instruction, decode
from graphwright.exc import CodeLocation, GraphBreak, InternalError, NotConstant, NotProxyable, ObservedException
from graphwright.graph_breaks import GraphBreakKind
from graphwright.sources import Source
from graphwright.symbolic import opcodes as _opcodes  # noqa: F401  registers the handlers
from graphwright.symbolic.clauses import has_except_clause, has_finally_clause
from graphwright.symbolic.dispatch import TABLE
from graphwright.symbolic.frame_state import (
    FrameCapture,
    HandledException,
    Outcome,
    Returned,
    Stopped,
    StoppedInside,
    WithBlock,
    Yielded,
)
from graphwright.symbolic.generator import root_steps
from graphwright.symbolic.inline import enough_recursion, inline_call
from graphwright.trust import is_trusted_class
from graphwright.variables.base import Args, Capture, Kwargs, VariableTracker
from graphwright.variables.cell import CellVariable
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.dict import DictVariable
from graphwright.variables.exception import ExceptionVariable, make_exception

_LETS_NOTHING_GO = (
    "LOAD_FAST",
    "LOAD_CONST",
    "LOAD_GLOBAL",
    "LOAD_DEREF",
    "PUSH_NULL",
    "PRECALL",
    "JUMP_",
    "COPY",
    "SWAP",
)


class Translator:
    """Runs the instructions of one frame on variables instead of values.

    A frame is the root of a capture, a call inlined into another frame, or a generator that pauses at each yield.

    Attributes:
        stack: the value stack; values may be lazy.
        locals: fast locals by name; unbound ones are missing. Values may be lazy.
        cells: closure cells by name: own ones once made, and those of the closure.
        kw_names: what KW_NAMES announced to the coming CALL.
        handled: the exception being handled.
        steps: instructions this frame has begun.
        began: number of the current instruction, counted over all frames.
        ops_before: how many operations the graph had when the current instruction began.
        called: what the current CALL calls, while it does.
        raise_steps: the step at which each exception that this frame handles came up in it.
    """

    def __init__(
        self,
        capture: FrameCapture,
        code: CodeType,
        arguments: dict[str, VariableTracker],
        closure: Sequence[CellVariable],
        globals_variable: DictVariable,
        parent: Translator | None = None,
    ) -> None:
        self.capture: Capture = capture
        self.frames = capture.frames
        self._shared = capture
        self.code = code
        self.decoded: DecodedCode = decode(code)
        self.instructions = self.decoded.instructions
        self.locals = arguments
        self.cells: dict[str, CellVariable] = {}
        self.closure = closure
        self.globals = globals_variable
        self.parent = parent
        self.stack: list[VariableTracker] = []
        self.kw_names: tuple[str, ...] = ()
        self.handled: HandledException = parent.handled if parent is not None else HandledException()
        self.ip = 0
        self.current: Instruction = self.instructions[0]
        self.steps = 0
        self.began = 0
        self.ops_before = 0
        self.called: VariableTracker | None = None
        self.stop_at = -1
        self.raise_steps: dict[VariableTracker, int] = {}
        self._with_blocks: list[WithBlock] = []
        self._constants: dict[int, VariableTracker] = {}
        self._outcome: Returned | Yielded | None = None
        self.frames.translated.append(self)

    def release(self) -> None:
        """Let go of all values: the capture has ended, and whatever still leads here would keep them."""
        self.stack.clear()
        for variables in (self.locals, self.cells, self.raise_steps, self._constants):
            variables.clear()
        self.closure, self.called, self._outcome, self._with_blocks = (), None, None, []
        self.handled = HandledException()
        self.globals = DictVariable.new()

    def __repr__(self) -> str:
        return f"<Translator {self.code.co_qualname} at {self.current!r}, stack {self.stack!r}>"

    # ---------------------------------------------------------- loop

    def run(self, raising: VariableTracker | None = None) -> Outcome:
        """Translate from `ip` until the frame returns, yields, or comes to step `stop_at`.

        Args:
            raising: an exception to raise where the frame is suspended.

        Raises:
            ObservedException: an exception leaves the frame.
            GraphBreak: something cannot be captured.
        """
        frames = self.frames
        outer = frames.enter(self)
        self._outcome = None
        try:
            if raising is not None and not self.unwind(raising):
                raise ObservedException(raising)
            while self.steps != self.stop_at:
                outcome = self.step()
                if outcome is not None:
                    return outcome
            return Stopped(self.instructions[self.ip])
        finally:
            frames.leave(outer)

    def step(self) -> Returned | Yielded | None:
        """Translate one instruction; gives how the frame ended, if it did."""
        frames = self.frames
        if frames.instructions == frames.stop_before:
            raise StoppedInside(self)
        inst = self.current = self.instructions[self.ip]
        self.ip += 1
        self.steps += 1
        self.began = frames.instructions
        self.ops_before = self.capture.output.op_count
        frames.instructions += 1
        if frames.instructions > frames.instruction_limit:
            self.graph_break(gb.TOO_DEEP, f"more than {frames.instruction_limit} instructions")
        if not self.ops_before and frames.instructions > frames.limit_before_first_op:
            limit = frames.limit_before_first_op
            self.graph_break(gb.TOO_DEEP, f"more than {limit} instructions before the first operation on tensors")
        if frames.tells_instructions:
            self._tell_instruction(inst)
        handler = TABLE.handlers[inst.opcode]
        if handler is None:
            self.graph_break(gb.UNSUPPORTED_OPCODE, f"{inst.opname} is not known")
        try:
            handler(self, inst)
        except ObservedException as signal:
            if not self.unwind(signal.value):
                raise
        except (NotConstant, NotProxyable) as signal:
            raise frames.graph_break(gb.UNSUPPORTED_VALUE, str(signal)) from signal
        if frames.watched and self._outcome is None and not inst.opname.startswith(_LETS_NOTHING_GO):
            self._keep_watched()
        return self._outcome

    def _keep_watched(self) -> None:
        """Break the graph where the instruction let go of an object that runs code when its last reference goes."""
        for value in finalizers.lost(self.frames.watched, self._held()):
            finalizers.break_for(self, value)

    def holds(self, value: VariableTracker) -> bool:
        """Whether a stack or a variable of any frame holds a value."""
        return not any(finalizers.lost([value], self._held()))

    def _held(self) -> Iterator[VariableTracker]:
        """What the stacks and the variables of all frames hold."""
        for frame in self._frames_outwards():
            yield from frame.stack
            yield from frame.locals.values()
            yield from (cell.contents for cell in frame.cells.values() if cell.contents is not None)

    def _tell_instruction(self, inst: Instruction) -> None:
        location = CodeLocation(self.code.co_filename, self.line, self.code.co_qualname)
        text = inst.opname if inst.arg is None else f"{inst.opname} {inst.argval!r}"
        events.emit(events.InstructionTraced(instruction=text, stack=tuple(map(repr, self.stack)), location=location))

    def unwind(self, exception: VariableTracker) -> bool:
        """Go to the handler of the current instruction; False where it has none."""
        handler = self.decoded.handler_for(self.current.index)
        if handler is None:
            return False
        self.raise_steps.setdefault(exception, self.steps - 1)
        del self.stack[handler.depth :]
        if handler.lasti:
            self.push(ConstantVariable(self.current.offset))
        self.push(exception)
        self.kw_names = ()
        self.ip = handler.target
        return True

    def finish(self, outcome: Returned | Yielded) -> None:
        """End or suspend the frame after the current instruction."""
        self._outcome = outcome

    def jump(self, inst: Instruction) -> None:
        """Continue at the target of a jump."""
        assert inst.target is not None
        self.ip = inst.target

    def branch(self, condition: VariableTracker, inst: Instruction) -> bool:
        """The truth of what a conditional jump tests."""
        return condition.realize().truth(self)

    @property
    def line(self) -> int:
        """The line of the current instruction."""
        return self.current.line or self.code.co_firstlineno

    # ---------------------------------------------------------- stack

    def push(self, value: VariableTracker) -> None:
        """Push a value, lazy or not."""
        self.stack.append(value)

    def pop(self) -> VariableTracker:
        """Pop a value and look at it."""
        return self.stack.pop().realize()

    def pop_raw(self) -> VariableTracker:
        """Pop a value that may be lazy, or NULL."""
        return self.stack.pop()

    def popn(self, count: int) -> list[VariableTracker]:
        """Pop `count` values, deepest first; they may be lazy."""
        if count == 0:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def peek(self, depth: int) -> VariableTracker:
        """The value at `depth` from the top (1: the top), looked at."""
        return self.stack[-depth].realize()

    def constant(self, inst: Instruction) -> VariableTracker:
        """The variable of an instruction's constant; the same for the same constant."""
        assert inst.arg is not None
        found = self._constants.get(inst.arg)
        if found is None:
            value = inst.argval
            found = ConstantVariable(value) if isinstance(value, CodeType) else self.wrap(value)
            self._constants[inst.arg] = found
        return found

    # ---------------------------------------------------------- with blocks

    def enter_with(self, manager: VariableTracker, exit_function: VariableTracker) -> None:
        """Note that a `with` block starts; its exit function is on top of the stack."""
        self._with_blocks = [*self.with_blocks(), WithBlock(manager, exit_function, len(self.stack) - 1)]

    def with_blocks(self) -> list[WithBlock]:
        """The `with` blocks that are open, outermost first.

        A block is open as long as its exit function lies where it was pushed.
        """
        return [b for b in self._with_blocks if b.depth < len(self.stack) and self.stack[b.depth] is b.exit]

    # ---------------------------------------------------------- the protocol variables see

    def wrap(self, value: Any, source: Source | None = None) -> VariableTracker:
        """The variable of a value; installs the guards that its kind needs."""
        return self.capture.wrapper.wrap(self, value, source)

    def lazy(self, value: Any, source: Source) -> VariableTracker:
        """A variable of a value nobody looked at yet."""
        return self.capture.wrapper.lazy(self, value, source)

    def wrap_trusted(self, value: Any, source: Source) -> VariableTracker:
        """The variable of what a trusted module holds."""
        return self.capture.wrapper.wrap_trusted(self, value, source)

    def call(self, fn: VariableTracker, args: Args, kwargs: Kwargs | None = None) -> VariableTracker:
        """Call as Python would."""
        return fn.realize().call(self, args, kwargs or {})

    def inline(self, fn: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Translate the body of a Python function in place."""
        return inline_call(self, fn, args, kwargs)

    def child(
        self,
        code: CodeType,
        arguments: dict[str, VariableTracker],
        closure: Sequence[CellVariable],
        globals_variable: DictVariable,
    ) -> Translator:
        """The translator of a call made by this frame."""
        return Translator(self._shared, code, arguments, closure, globals_variable, self)

    def graph_break(self, kind: GraphBreakKind, detail: str) -> NoReturn:
        """Stop capture here."""
        frames = self.frames
        if frames.current is None:  # values are being built, after the translation
            frames.current = self
        raise frames.graph_break(kind, detail)

    def is_in_try(self) -> bool:
        """Whether the program sees where an exception comes from.

        A handler of its own would meet it, other than that of a `with`; or another exception is being handled, which
        would be its context.
        """
        if self.handled.topmost() is not None:
            return True
        return any(has_except_clause(frame.decoded, frame.current.index) for frame in self._frames_outwards())

    def is_in_cleanup(self) -> bool:
        """Whether an exception raised here would meet any handler: of a `with`, a `finally` or an `except`."""
        return any(frame.decoded.handler_for(frame.current.index) is not None for frame in self._frames_outwards())

    def is_in_finally(self) -> bool:
        """Whether an exception raised here would run a `finally` clause, and go on."""
        return any(has_finally_clause(frame.decoded, frame.current.index) for frame in self._frames_outwards())

    def may_be_swallowed(self) -> bool:
        """Whether a context manager of the program's may end an exception raised here."""
        blocks = (block for frame in self._frames_outwards() for block in frame.with_blocks())
        return any(not is_trusted_class(block.manager.realize().python_type()) for block in blocks)

    def _frames_outwards(self) -> Iterator[Translator]:
        frame: Translator | None = self
        while frame is not None:
            yield frame
            frame = frame.parent

    def break_signal(self, kind: GraphBreakKind, detail: str) -> GraphBreak:
        """What `graph_break` would raise here, to be raised later."""
        signal = self.frames.graph_break(kind, detail)
        signal.step = root_steps(self) - 1
        return signal

    def raise_(self, kind: type[BaseException], *args: Any) -> NoReturn:
        """Raise an exception in the traced program; args are constants or variables."""
        self.raise_exception(make_exception(self, kind, args))

    def raise_exception(self, exception: VariableTracker) -> NoReturn:
        """Raise an exception object in the traced program, as `PyErr_SetObject` does."""
        if not isinstance(exception, ExceptionVariable):
            self.graph_break(gb.MUTATION_OF_UNKNOWN, f"raising a {exception.type_name()} that exists outside")
        chain(exception, self.handled.topmost())
        exception.was_raised = True
        frames = self.frames
        frames.raised_at = frames.location()
        raise ObservedException(exception)

    def current_exception(self) -> VariableTracker | None:
        """The exception being handled, as `sys.exc_info()` sees it."""
        return self.handled.topmost()

    def zero_arg_super(self) -> tuple[VariableTracker, VariableTracker]:
        """The two arguments that `super()` finds in its frame: the class and the first argument."""
        if self.code.co_argcount == 0:
            self.raise_(RuntimeError, "super(): no arguments")
        name = self.code.co_varnames[0]
        cell = self.cells.get(name)
        first = cell.load(self) if cell is not None else self.locals.get(name)
        if first is None:
            self.raise_(RuntimeError, "super(): arg[0] deleted")
        class_cell = self.cells.get("__class__")
        if class_cell is None:
            self.raise_(RuntimeError, "super(): __class__ cell not found")
        cls = class_cell.load(self)
        if cls is None:
            self.raise_(RuntimeError, "super(): empty __class__ cell")
        return cls, first


class RootTranslator(Translator):
    """The translator of the frame a capture is made for.

    Attributes:
        broken_step: after a `GraphBreak`, the step before which a new translation should stop.
    """

    broken_step: int | None = None

    def translate(self, stop_at: int | None = None) -> Returned | Stopped:
        """Translate the frame.

        Args:
            stop_at: number of a step (see `broken_step`) to stop before. Translation is deterministic, so a new
                translator of the same frame comes to that step in the same state, with nothing of it done.

        Raises:
            GraphBreak: something cannot be captured; an exception that leaves the frame among them.
        """
        self.stop_at = -1 if stop_at is None else stop_at
        frames = self.frames
        try:
            with enough_recursion(frames.depth_limit):
                outcome = self.run()
        except ObservedException as signal:
            self.broken_step = self.steps - 1
            raise self._escaping(signal.value) from signal
        except GraphBreak:
            self.broken_step = self.steps - 1
            raise
        for generator in frames.generators:
            if generator.needs_closing():
                self.broken_step = generator.born_at
                raise frames.graph_break(gb.GENERATOR_ESCAPES, "a generator is left inside a try or with statement")
        return cast("Returned | Stopped", outcome)

    def translate_until(self, instruction: int) -> Translator:
        """Translate up to an instruction, counted over all frames; the frame it belongs to, with all in its state.

        Raises:
            InternalError: translation ended without coming to it.
        """
        frames = self.frames
        frames.stop_before = instruction
        try:
            with enough_recursion(frames.depth_limit):
                self.run()
        except StoppedInside as signal:
            found: Translator = signal.frame
            return found
        raise InternalError(f"translation of {self.code.co_qualname} did not come to instruction {instruction} again")

    def _escaping(self, exception: VariableTracker) -> GraphBreak:
        frames = self.frames
        signal = frames.graph_break(gb.EXCEPTION_ESCAPES, f"{exception.type_name()} leaves {self.code.co_qualname}()")
        signal.location = frames.raised_at or signal.location
        return signal


def chain(exception: ExceptionVariable, handled: VariableTracker | None) -> None:
    """Make the exception being handled the `__context__` of a new one.

    Source: `_PyErr_SetObject` in CPython's Python/errors.c; a chain that would become a cycle is cut.
    """
    if handled is None or handled is exception:
        return
    link: VariableTracker | None = handled
    seen: set[int] = set()
    while isinstance(link, ExceptionVariable) and id(link) not in seen:
        seen.add(id(link))
        if link.context is exception:
            link.context = None
            break
        link = link.context
    exception.context = handled
