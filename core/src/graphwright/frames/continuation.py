"""Graph breaks inside inlined calls: each frame around the break goes on in the middle, by a continuation."""

from __future__ import annotations

import itertools
from types import CodeType, FunctionType
from typing import Any

import graphwright._native as _native
from graphwright.bytecode import CodeBuilder
from graphwright.bytecode.liveness import live_names
from graphwright.cache_key import CacheKey
from graphwright.codegen import Codegen
from graphwright.frames.break_code import SUSPENDED, BreakCode
from graphwright.resume import STACK_ARGUMENT, eager_stretch
from graphwright.symbolic.frame_state import NULL
from graphwright.symbolic.translator import Translator
from graphwright.variables.base import Emitter, NotReconstructible, VariableTracker
from graphwright.variables.finalizers import end_is_seen
from graphwright.variables.function import BoundMethodVariable, FunctionVariable
from graphwright.variables.misc import PartialVariable
from graphwright.variables.nn_module import ModuleVariable


class ContinuationCode(BreakCode):
    """The end of an inlined call in which the graph breaks: a function that goes on in the middle of the called one.

    Its code does what `BreakCode` does at the end of replacement code; its arguments are stack, variables and cells.
    """

    def arguments(self) -> list[tuple[str, VariableTracker]]:
        """What the function is given: names and values.

        Raises:
            NotReconstructible: the frame is handling an exception, which is needed as the context of others.
        """
        if self._tx.handled.value is not None:
            raise NotReconstructible(self._tx.handled.value)
        live = live_names(self._decoded, self._entry)
        given = [(STACK_ARGUMENT.format(i), value) for i, value in enumerate(self._stack) if value is not NULL]
        given += [(name, self._tx.locals[name]) for name in live if name in self._tx.locals]
        unread = [n for n, value in self._tx.locals.items() if n not in live and end_is_seen(value)]
        given += [(name, self._tx.locals[name]) for name in unread]
        self._kept.update(unread)
        given += [(name, self._tx.cells[name]) for name in self._given_cells()]
        first = self._tx.code.co_varnames[:1]  # what `super()` takes for `self`
        return sorted(given, key=lambda pair: pair[0] not in first)

    def _given_cells(self) -> list[str]:
        return [*self._own_cells, *self._cell_arguments]

    def code(self) -> CodeType:
        """The code of the function."""
        code = self._tx.code
        builder = CodeBuilder(
            name=code.co_name,
            qualname=code.co_qualname,
            filename=code.co_filename,
            firstlineno=code.co_firstlineno,
            arguments=tuple(name for name, _ in self.arguments()),
            freevars=code.co_freevars,
            cell_arguments=tuple(self._given_cells()),
            cellvars=tuple(n for n in code.co_cellvars if n not in self._given_cells()),
        )
        codegen = Codegen(self._tx.capture.roots)
        for i, value in enumerate(self._stack):
            if value is NULL:
                codegen.op("push_null")
            else:
                codegen.op("load_fast", STACK_ARGUMENT.format(i))
        self._emit_rest(codegen)
        codegen.emit_into(builder, None, [])
        made = builder.assemble()
        _native.mark(made, None, _native.SKIP)
        return made

    @property
    def frame(self) -> Translator:
        """The frame of the inlined call."""
        return self._tx


class ContinuationVariable(VariableTracker):
    """A callable that goes on in the middle of an inlined call, whatever arguments it is given."""

    def __init__(self, ending: ContinuationCode) -> None:
        self._ending = ending

    def python_type(self) -> type:
        return _native.Continuation

    def reconstruct(self, emit: Emitter) -> None:
        frame = self._ending.frame
        given = self._ending.arguments()
        emit.load_constant(_native.Continuation)
        emit.load_constant(FunctionType)
        emit.load_constant(self._ending.code())
        emit(frame.globals)
        emit.load_constant(frame.code.co_name)
        emit.load_constant(None)
        for cell in frame.closure:
            emit(cell)
        if frame.closure:
            emit.op("build_tuple", len(frame.closure))
        else:
            emit.load_constant(None)
        emit.op("call", 5)
        for _, value in given:
            emit(value)
        emit.op("call", 1 + len(given))


def innermost_resumable(frames: tuple[Translator, ...]) -> Translator:
    """The frame that a graph break can be made in: all calls around it can be gone on with afterwards.

    Args:
        frames: the frames the break was met in, outermost first.
    """
    captured = frames[0].capture.output.op_count
    for outer, inner in itertools.pairwise(frames):
        # Without an operation since, breaking further inside would gain nothing but guards.
        if outer.ops_before == captured or not _goes_on_after(outer, inner):
            return outer
    return frames[-1]


def _goes_on_after(outer: Translator, inner: Translator) -> bool:
    """Whether what `inner` returns is what the current instruction of `outer`, a call outside of loops, gives."""
    if inner.parent is not outer or outer.current.opname != "CALL" or outer.called is None:
        return False
    if outer.code.co_flags & SUSPENDED or inner.code.co_flags & SUSPENDED or outer.handled.value is not None:
        return False
    stretch, _ = eager_stretch(outer.decoded, outer.current.index)
    return len(stretch) == 1 and _runs_body(outer.called, inner.code)


def _runs_body(callee: VariableTracker, code: CodeType) -> bool:
    """Whether calling something runs this code and gives what it returns."""
    if isinstance(callee, BoundMethodVariable | PartialVariable):
        return _runs_body(callee.function.realize(), code)
    if isinstance(callee, FunctionVariable):
        return callee.code is code
    return isinstance(callee, ModuleVariable) and code.co_name in ("forward", "_wrapped_call_impl", "__call__")


def break_inside(frame: Translator, key: CacheKey, convert: Any) -> BreakCode:
    """The ending of replacement code for a break in an inlined call: each frame around it goes on with what it gives.

    Args:
        frame: the frame that was stopped before the instruction that breaks.
    """
    caller = frame.parent
    if caller is None:
        return BreakCode(frame, key, convert)
    ending = ContinuationCode(frame, key, convert)
    while caller.parent is not None:
        ending = ContinuationCode(caller, key, convert, ContinuationVariable(ending))
        caller = caller.parent
    return BreakCode(caller, key, convert, ContinuationVariable(ending))
