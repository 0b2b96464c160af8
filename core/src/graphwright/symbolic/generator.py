"""Generators of the traced program: frames that pause."""

from __future__ import annotations

import enum
import types
from typing import TYPE_CHECKING, Any, Final

import graphwright.graph_breaks as gb
from graphwright.bytecode.versions import PY312
from graphwright.exc import ObservedException
from graphwright.symbolic.frame_state import HandledException, Returned, Yielded
from graphwright.variables.base import Args, Emitter, Kwargs, NotReconstructible, Tx, VariableTracker, is_the
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.exception import ExceptionVariable, make_exception
from graphwright.variables.iterator import IteratorVariable

if TYPE_CHECKING:
    from graphwright.symbolic.translator import Translator

_YIELD_FROM: Final = 2
"""Argument of the RESUME that follows the yield of a `yield from`."""
_METHODS: Final = ("send", "throw", "close", "__next__", "__iter__")


class State(enum.Enum):
    """Where a generator is in its life."""

    CREATED = enum.auto()
    SUSPENDED = enum.auto()
    RUNNING = enum.auto()
    FINISHED = enum.auto()


class GeneratorVariable(IteratorVariable):
    """A generator: a translator that pauses at each yield, and goes on in whatever frame resumes it.

    Attributes:
        frame: its translator.
        born_at: the step of the root frame that made it.
    """

    exact_type = types.GeneratorType

    def __init__(self, frame: Translator) -> None:
        self.frame = frame
        self.state = State.CREATED
        self.frame.handled = HandledException()
        self.born_at = root_steps(frame) - 1
        self._made_by: tuple[VariableTracker, list[VariableTracker], Kwargs] | None = None
        frame.frames.generators.append(self)

    def made_by(self, fn: VariableTracker, args: Args, kwargs: Kwargs) -> None:
        """Note the call that made the generator: before its first step, that call can be repeated."""
        self._made_by = (fn, list(args), dict(kwargs))

    # ---------------------------------------------------------- resuming

    def resume(self, tx: Translator, value: VariableTracker) -> Returned | Yielded:
        """Go on with the value of the pending `yield`."""
        if self.state is State.FINISHED:
            return Returned(ConstantVariable(None))
        if self.state is State.CREATED and not _is_none(value):
            tx.raise_(TypeError, "can't send non-None value to a just-started generator")
        self._refuse_reentry(tx)
        self.frame.push(value)
        return self._run(tx)

    def raise_inside(self, tx: Translator, exception: VariableTracker) -> Returned | Yielded:
        """Go on by raising an exception at the pending `yield`."""
        self._refuse_reentry(tx)
        if self.state in (State.CREATED, State.FINISHED):
            self.state = State.FINISHED
            raise ObservedException(exception)
        handled = self.frame.handled.value
        if handled is not None and isinstance(exception, ExceptionVariable) and handled is not exception:
            exception.context = handled
        # The slot of the value that would have been sent; handlers count it in their depth.
        self.frame.push(ConstantVariable(None))
        return self._run(tx, exception)

    def _refuse_reentry(self, tx: Tx) -> None:
        if self.state is State.RUNNING:
            tx.raise_(ValueError, "generator already executing")

    def _run(self, tx: Translator, exception: VariableTracker | None = None) -> Returned | Yielded:
        frame = self.frame
        frame.parent = tx
        frame.handled.previous = tx.handled
        self.state = State.RUNNING
        try:
            outcome = frame.run(exception)
        except ObservedException as signal:
            self.state = State.FINISHED
            if issubclass(signal.value.python_type(), StopIteration):
                raise ObservedException(_stop_iteration_error(tx, signal.value)) from signal
            raise
        finally:
            frame.handled.previous = None
        assert isinstance(outcome, Returned | Yielded)
        self.state = State.SUSPENDED if isinstance(outcome, Yielded) else State.FINISHED
        return outcome

    def delegate(self) -> VariableTracker | None:
        """The iterator of the `yield from` in which the generator is suspended."""
        if self.state is not State.SUSPENDED:
            return None
        following = self.frame.instructions[self.frame.ip]
        if following.opname == "RESUME" and (following.arg or 0) & 3 == _YIELD_FROM:
            return self.frame.stack[-1].realize()
        return None

    def needs_closing(self) -> bool:
        """Whether dropping the generator now would run code of its: it is suspended inside a try or with."""
        if self.state is not State.SUSPENDED:
            return False
        delegate = self.delegate()
        if delegate is not None and not isinstance(delegate, GeneratorVariable):
            return hasattr(delegate.python_type(), "close")
        if delegate is not None:
            return False  # the delegate answers for itself; only it is inside a handler of ours
        handler = self.frame.decoded.handler_for(self.frame.current.index)
        return handler is not None and not _only_converts(self.frame, handler.target)

    # ---------------------------------------------------------- the generator protocol

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        outcome = self.resume(_translator(tx), ConstantVariable(None))
        return outcome.value if isinstance(outcome, Yielded) else None

    def next_item(self, tx: Tx) -> VariableTracker:
        return self._item(tx, self.resume(_translator(tx), ConstantVariable(None)))

    def _item(self, tx: Tx, outcome: Returned | Yielded) -> VariableTracker:
        """What was yielded; a return raises StopIteration with its value."""
        if isinstance(outcome, Yielded):
            return outcome.value
        if _is_none(outcome.value):
            tx.raise_(StopIteration)
        tx.raise_(StopIteration, outcome.value.realize())

    def throw(self, tx: Translator, exception: VariableTracker) -> Returned | Yielded:
        """`generator.throw(exception)`: a generator that delegates passes it on first.

        Source: `_gen_throw` in CPython's Objects/genobject.c.
        """
        delegate = self.delegate()
        if delegate is None:
            return self.raise_inside(tx, exception)
        if issubclass(exception.python_type(), GeneratorExit):
            try:
                self._while_running(tx, lambda: close_iterator(tx, delegate))
            except ObservedException as signal:
                return self._end_delegation(tx, signal)
            return self.raise_inside(tx, exception)
        if not isinstance(delegate, GeneratorVariable) and not hasattr(delegate.python_type(), "throw"):
            return self.raise_inside(tx, exception)
        try:
            yielded = self._while_running(tx, lambda: _throw_into(tx, delegate, exception))
        except ObservedException as signal:
            return self._end_delegation(tx, signal)
        return Yielded(yielded)

    def _while_running(self, tx: Translator, action: Any) -> Any:
        """Do something on behalf of this generator, which counts as running meanwhile."""
        self.state = State.RUNNING
        try:
            return action()
        finally:
            self.state = State.SUSPENDED

    def _end_delegation(self, tx: Translator, signal: ObservedException) -> Returned | Yielded:
        """The delegate raised: its StopIteration ends the `yield from`, anything else is raised there."""
        result = raised_stop_iteration(tx, signal)
        if PY312 or result is None:
            return self.raise_inside(tx, signal.value)
        # Before 3.12 no handler in the code does it: jump to the end of the SEND loop, without the delegate.
        send = self.frame.instructions[self.frame.current.index - 1]
        assert send.opname == "SEND"
        self.frame.pop_raw()
        self.frame.jump(send)
        return self.resume(tx, result)

    def close(self, tx: Translator) -> None:
        """`generator.close()`.

        Source: `gen_close` in CPython's Objects/genobject.c.
        """
        if self.state in (State.CREATED, State.FINISHED):
            self.state = State.FINISHED
            return
        self._refuse_reentry(tx)
        exception: VariableTracker | None = None
        delegate = self.delegate()
        if delegate is not None:
            try:
                self._while_running(tx, lambda: close_iterator(tx, delegate))
            except ObservedException as signal:
                exception = signal.value
        try:
            outcome = self.raise_inside(tx, exception or make_exception(tx, GeneratorExit))
        except ObservedException as signal:
            if issubclass(signal.value.python_type(), StopIteration | GeneratorExit):
                return
            raise
        if isinstance(outcome, Yielded):
            tx.raise_(RuntimeError, "generator ignored GeneratorExit")

    # ---------------------------------------------------------- attributes

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name not in _METHODS or kwargs:
            return super().call_method(tx, name, args, kwargs)
        counts = {"send": (1, 1), "throw": (1, 3)}.get(name, (0, 0))
        if not counts[0] <= len(args) <= counts[1]:
            tx.raise_(TypeError, f"generator.{name}() got {len(args)} arguments")
        inner = _translator(tx)
        if name == "send":
            return self._item(tx, self.resume(inner, args[0]))
        if name == "throw":
            return self._item(tx, self.throw(inner, thrown_exception(inner, args)))
        if name == "close":
            self.close(inner)
            return ConstantVariable(None)
        return self if name == "__iter__" else self.next_item(tx)

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name in _METHODS:
            return GeneratorMethodVariable(self, name)
        if name in ("__name__", "__qualname__"):
            return ConstantVariable(getattr(self.frame.code, name.replace("__", "co_", 1).removesuffix("__")))
        if name == "gi_yieldfrom":
            return self.delegate() or ConstantVariable(None)
        if name in ("gi_running", "gi_suspended"):
            return ConstantVariable(self.state is (State.RUNNING if name == "gi_running" else State.SUSPENDED))
        return super().getattr(tx, name)

    def reconstruct(self, emit: Emitter) -> None:
        if self.state is not State.CREATED or self._made_by is None:
            raise NotReconstructible(self)
        fn, args, kwargs = self._made_by
        emit(fn)
        for value in (*args, *kwargs.values()):
            emit(value)
        emit.op("call", len(args) + len(kwargs), tuple(kwargs))

    def __repr__(self) -> str:
        return f"<generator {self.frame.code.co_qualname} {self.state.name.lower()}>"


class GeneratorMethodVariable(VariableTracker):
    """A bound method of a generator."""

    def __init__(self, owner: GeneratorVariable, name: str) -> None:
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        return types.BuiltinMethodType if not self.name.startswith("__") else types.MethodWrapperType

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.owner.call_method(tx, self.name, args, kwargs)

    def hash_key(self, tx: Tx) -> object:
        return (GeneratorMethodVariable, self.owner, self.name)

    def reconstruct(self, emit: Emitter) -> None:
        emit(self.owner)
        emit.op("load_attr", self.name)


# ------------------------------------------------------------------ helpers


def _translator(tx: Any) -> Translator:
    """The translator behind the protocol that variables see."""
    found: Translator = tx
    return found


def root_steps(frame: Translator) -> int:
    """How many instructions the root frame has begun."""
    while frame.parent is not None:
        frame = frame.parent
    return frame.steps


def _is_none(value: VariableTracker) -> bool:
    value = value.realize()
    return is_the(value, None)


def _only_converts(frame: Translator, target: int) -> bool:
    """Whether a handler is the one that 3.12 puts around every generator, to turn StopIteration into RuntimeError."""
    instruction = frame.instructions[target]
    return instruction.opname == "CALL_INTRINSIC_1" and instruction.arg == 3


def raised_stop_iteration(tx: Tx, signal: ObservedException) -> VariableTracker | None:
    """The value of a StopIteration that was raised; None for another exception."""
    exception: VariableTracker = signal.value
    if not issubclass(exception.python_type(), StopIteration):
        return None
    return exception.getattr(tx, "value")


def _stop_iteration_error(tx: Tx, cause: VariableTracker) -> VariableTracker:
    """The RuntimeError in whose place a StopIteration would leave a generator (PEP 479)."""
    error = make_exception(tx, RuntimeError, ("generator raised StopIteration",))
    assert isinstance(error, ExceptionVariable)
    error.cause = error.context = cause
    error.suppress_context = True
    return error


def close_iterator(tx: Translator, iterator: VariableTracker) -> None:
    """Close what a generator delegates to, where it can be closed."""
    if isinstance(iterator, GeneratorVariable):
        iterator.close(tx)
    elif hasattr(iterator.python_type(), "close"):
        tx.call(iterator.getattr(tx, "close"), [])


def _throw_into(tx: Translator, iterator: VariableTracker, exception: VariableTracker) -> VariableTracker:
    return tx.call(iterator.getattr(tx, "throw"), [exception])


def thrown_exception(tx: Translator, args: Args) -> VariableTracker:
    """The exception that `throw(type[, value[, traceback]])` or `throw(exception)` raises."""
    kind = args[0].realize()
    value = args[1].realize() if len(args) > 1 else ConstantVariable(None)
    if issubclass(kind.python_type(), BaseException):
        if not _is_none(value):
            tx.raise_(TypeError, "instance exception may not have a separate value")
        return kind
    is_class = issubclass(kind.python_type(), type) and kind.is_python_constant()
    if not is_class or not issubclass(kind.as_python_constant(), BaseException):
        found = "exceptions must be classes or instances deriving from BaseException, not {}"
        tx.raise_(TypeError, found.format(kind.type_name()))
    if issubclass(value.python_type(), kind.as_python_constant()):
        return value
    if _is_none(value):
        return tx.call(kind, []).realize()
    if issubclass(value.python_type(), tuple):
        return tx.call(kind, value.unpack(tx)).realize()
    if issubclass(value.python_type(), BaseException):
        tx.graph_break(gb.UNKNOWN_CALL, "throw() of a class with an instance of another class")
    return tx.call(kind, [value]).realize()
