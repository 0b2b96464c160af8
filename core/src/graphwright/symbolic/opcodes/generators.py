"""Making, suspending and delegating to generators, and the intrinsic functions that generators need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import graphwright.graph_breaks as gb
from graphwright.bytecode.versions import PY312
from graphwright.exc import ObservedException
from graphwright.symbolic.dispatch import opcode
from graphwright.symbolic.frame_state import Returned, Yielded
from graphwright.symbolic.generator import GeneratorVariable, raised_stop_iteration
from graphwright.symbolic.opcodes.arithmetic import UNARY, apply
from graphwright.variables.base import VariableTracker, is_the, try_next
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.sequence import TupleVariable

if TYPE_CHECKING:
    from graphwright.bytecode import Instruction
    from graphwright.symbolic.translator import Translator

_STOPITERATION_ERROR: Final = 3
_UNARY_POSITIVE: Final = 5
_LIST_TO_TUPLE: Final = 6


@opcode("RETURN_GENERATOR")
def return_generator(tx: Translator, inst: Instruction) -> None:
    """Return a generator that will run the rest of the frame.

    Stack: (--); what resumes the frame pushes one value, which the next instruction drops
    """
    tx.finish(Returned(GeneratorVariable(tx)))


@opcode("YIELD_VALUE")
def yield_value(tx: Translator, inst: Instruction) -> None:
    """Suspend the frame and hand out a value.

    Stack: (value -- value sent)
    """
    tx.finish(Yielded(tx.pop_raw()))


@opcode("GET_YIELD_FROM_ITER")
def get_yield_from_iter(tx: Translator, inst: Instruction) -> None:
    """Get what `yield from` runs: a generator itself, or an iterator.

    Stack: (iterable -- iterator)
    """
    value = tx.pop()
    tx.push(value if isinstance(value, GeneratorVariable) else value.iterate(tx))


@opcode("SEND")
def send(tx: Translator, inst: Instruction) -> None:
    """Send a value to the iterator of `yield from`; at its end jump, with its result in place of the value.

    Stack: (iterator, value -- iterator, yielded value); at the end (-- result), from 3.12 on (-- iterator, result)
    """
    value = tx.pop_raw()
    ended, result = _advance(tx, tx.peek(1), value)
    if ended:
        if not PY312:
            tx.pop_raw()
        tx.jump(inst)
    tx.push(result)


def _advance(tx: Translator, iterator: VariableTracker, value: VariableTracker) -> tuple[bool, VariableTracker]:
    """Advance the iterator of a `yield from`: whether it ended, and what it yielded or returned."""
    if isinstance(iterator, GeneratorVariable):
        outcome = iterator.resume(tx, value)
        return isinstance(outcome, Returned), outcome.value
    sent, method = value.realize(), None
    if is_the(sent, None):
        if hasattr(iterator, "next_or_none"):
            item = try_next(tx, iterator)
            return (True, ConstantVariable(None)) if item is None else (False, item)
    else:
        method = iterator.getattr(tx, "send")
    try:
        return False, iterator.next_item(tx) if method is None else tx.call(method, [sent])
    except ObservedException as signal:
        result = raised_stop_iteration(tx, signal)
        if result is None:
            raise
        return True, result


@opcode("END_SEND", since=(3, 12))
def end_send(tx: Translator, inst: Instruction) -> None:
    """Drop the iterator of a finished `yield from`.

    Stack: (iterator, result -- result)
    """
    result = tx.pop_raw()
    tx.pop_raw()
    tx.push(result)


@opcode("CLEANUP_THROW", since=(3, 12))
def cleanup_throw(tx: Translator, inst: Instruction) -> None:
    """After an exception in `yield from`: StopIteration ends it, anything else goes on.

    Stack: (iterator, value sent, exception -- None, result)
    """
    iterator_value_exception = tx.popn(3)
    signal = ObservedException(iterator_value_exception[2].realize())
    result = raised_stop_iteration(tx, signal)
    if result is None:
        raise signal
    tx.push(ConstantVariable(None))
    tx.push(result)


@opcode("CALL_INTRINSIC_1", since=(3, 12))
def call_intrinsic_1(tx: Translator, inst: Instruction) -> None:
    """Call a function of the interpreter's own.

    Stack: (value -- result)
    """
    if inst.arg == _UNARY_POSITIVE:
        apply(tx, UNARY["UNARY_POSITIVE"], 1)
    elif inst.arg == _LIST_TO_TUPLE:
        tx.push(TupleVariable(tx.pop().unpack(tx)))
    elif inst.arg == _STOPITERATION_ERROR:
        # What leaves a generator as StopIteration is turned into RuntimeError by `GeneratorVariable`, on all versions.
        return
    else:
        tx.graph_break(gb.UNSUPPORTED_OPCODE, f"CALL_INTRINSIC_1 {inst.arg}: type parameters, async or module code")


@opcode("CALL_INTRINSIC_2", since=(3, 12))
def call_intrinsic_2(tx: Translator, inst: Instruction) -> None:
    """Refuse: these functions serve `except*` and type parameters.

    Stack: (value, value -- result)
    """
    tx.graph_break(gb.UNSUPPORTED_OPCODE, f"CALL_INTRINSIC_2 {inst.arg}: exception groups or type parameters")
