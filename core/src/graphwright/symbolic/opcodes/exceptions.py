"""Raising and catching."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

import graphwright.graph_breaks as gb
from graphwright.exc import ObservedException
from graphwright.symbolic.dispatch import opcode
from graphwright.variables.base import Emitter, NotReconstructible, Tx, VariableTracker, is_the
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.exception import ExceptionVariable, exception_matches

if TYPE_CHECKING:
    from graphwright.bytecode import Instruction
    from graphwright.symbolic.translator import Translator


class TracebackVariable(VariableTracker):
    """The traceback of an exception of the traced program; it can only be passed on."""

    def python_type(self) -> type:
        return types.TracebackType

    def hash_key(self, tx: Tx) -> object:
        return self

    def reconstruct(self, emit: Emitter) -> None:
        raise NotReconstructible(self)

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        tx.graph_break(gb.DYNAMIC_CODE, f"attribute {name!r} of a traceback")


def traceback_of(exception: VariableTracker) -> VariableTracker:
    """The traceback of a caught exception; the same each time it is asked for."""
    assert isinstance(exception, ExceptionVariable)
    if exception.traceback_vt is None:
        exception.traceback_vt = TracebackVariable()
    return exception.traceback_vt


def exception_instance(tx: Translator, value: VariableTracker) -> VariableTracker | None:
    """The exception object of what stands after `raise` or `from`: an object, or a class to be called.

    None where it is neither.
    """
    value = value.realize()
    if issubclass(value.python_type(), BaseException):
        return value
    if not issubclass(value.python_type(), type) or not value.is_python_constant():
        return None
    cls = value.as_python_constant()
    if not issubclass(cls, BaseException):
        return None
    made = tx.call(value, []).realize()
    if not issubclass(made.python_type(), BaseException):
        found = f"calling {cls!r} should have returned an instance of BaseException, not {made.python_type()!r}"
        tx.raise_(TypeError, found)
    return made


def _set_cause(tx: Translator, exception: VariableTracker, cause: VariableTracker) -> None:
    """`raise exception from cause`."""
    assert isinstance(exception, ExceptionVariable)
    cause = cause.realize()
    if is_the(cause, None):
        exception.cause = None
    else:
        found = exception_instance(tx, cause)
        if found is None:
            tx.raise_(TypeError, "exception causes must derive from BaseException")
        exception.cause = found
    exception.suppress_context = True


@opcode("RAISE_VARARGS")
def raise_varargs(tx: Translator, inst: Instruction) -> None:
    """Raise anew (0), raise (1), or raise with a cause (2).

    Stack: (exception?, cause? --)
    """
    if inst.arg == 0:
        handled = tx.current_exception()
        if handled is None:
            tx.raise_(RuntimeError, "No active exception to reraise")
        raise ObservedException(handled)
    cause = tx.pop() if inst.arg == 2 else None
    exception = exception_instance(tx, tx.pop())
    if exception is None:
        tx.raise_(TypeError, "exceptions must derive from BaseException")
    if cause is not None and isinstance(exception, ExceptionVariable):
        _set_cause(tx, exception, cause)
    tx.raise_exception(exception)


@opcode("RERAISE")
def reraise(tx: Translator, inst: Instruction) -> None:
    """Raise the exception on top again, its context untouched.

    Stack: (exception --)
    """
    raise ObservedException(tx.pop())


@opcode("PUSH_EXC_INFO")
def push_exc_info(tx: Translator, inst: Instruction) -> None:
    """Start handling the exception on top; the one handled so far goes below it.

    Stack: (exception -- previous, exception)
    """
    exception = tx.pop()
    tx.push(tx.handled.value or ConstantVariable(None))
    tx.push(exception)
    tx.handled.value = exception


@opcode("POP_EXCEPT")
def pop_except(tx: Translator, inst: Instruction) -> None:
    """End handling; the exception handled before is current again.

    Stack: (previous --)
    """
    previous = tx.pop()
    tx.handled.value = None if previous.is_python_constant() else previous


@opcode("CHECK_EXC_MATCH")
def check_exc_match(tx: Translator, inst: Instruction) -> None:
    """Push whether the exception matches the class or tuple of classes after `except`.

    Stack: (exception, pattern -- exception, bool)
    """
    pattern = tx.pop()
    tx.push(ConstantVariable(exception_matches(tx, tx.peek(1), pattern)))


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(tx: Translator, inst: Instruction) -> None:
    """Push the class that a failing `assert` raises.

    Stack: (-- AssertionError)
    """
    tx.push(tx.wrap(AssertionError))
