"""The end of replacement code at a graph break: rebuild the frame, run what breaks in eager, call resume functions."""

from __future__ import annotations

import functools
import inspect
from types import FunctionType
from typing import Any

import torch

import graphwright._native as _native
from graphwright.bytecode import CodeBuilder, Label
from graphwright.bytecode.depth import stack_depths
from graphwright.bytecode.liveness import live_names
from graphwright.bytecode.versions import NULL_BELOW_CALLABLE
from graphwright.cache_key import CacheKey
from graphwright.codegen import Codegen
from graphwright.frame_filter import EXPECTED_CODE
from graphwright.resume import RESUME_FUNCTIONS, STACK_ARGUMENT, ResumePoint, eager_stretch
from graphwright.symbolic.frame_state import NULL
from graphwright.symbolic.translator import Translator
from graphwright.variables.base import LazyVariable, NotReconstructible, VariableTracker
from graphwright.variables.cell import CellVariable
from graphwright.variables.finalizers import end_is_seen
from graphwright.variables.function import FunctionVariable
from graphwright.variables.tensor import TensorVariable

SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_PREPARES_CALL = ("PRECALL", "KW_NAMES")
_PUSHES_NOTHING = ("POP_", "STORE_", "DELETE_", "JUMP_", "RAISE_", "RERAISE", "LIST_", "SET_", "DICT_", "MAP_")
_RUNS_NO_PYTHON = (
    "POP_",
    "JUMP_",
    "LOAD_FAST",
    "LOAD_CONST",
    "STORE_FAST",
    "RETURN_VALUE",
    "COPY",
    "SWAP",
    "NOP",
    "PUSH_NULL",
    "RESUME",
)


def _costs_nothing(value: VariableTracker) -> bool:
    if isinstance(value, LazyVariable) and not value.is_realized():
        return False
    value = value.realize()
    return isinstance(value, FunctionVariable) or value.is_python_constant()


def _place_label(builder: CodeBuilder, label: Label, depth: int) -> None:
    builder.label(label, depth=depth)


def in_calling_order(callee: VariableTracker) -> tuple[VariableTracker, VariableTracker]:
    """A callable and the NULL of a call without `self`, in the order of this version."""
    return (NULL, callee) if NULL_BELOW_CALLABLE else (callee, NULL)


class BreakCode:
    """Writes what follows the captured part of a frame.

    The instruction that breaks the graph, or the whole loop it is in, runs as it stands in the original, with the
    original's exception handlers; wherever control leaves it, a resume function takes the stack and the variables.

    Args:
        translator: the frame, stopped before the instruction; or inside the call that the instruction makes.
        going_on: in the latter case, what to call instead: it goes on in the middle of the called function.
    """

    def __init__(
        self, translator: Translator, key: CacheKey, convert: Any, going_on: VariableTracker | None = None
    ) -> None:
        self._tx = translator
        self._key = key
        self._convert = convert
        self._decoded = translator.decoded
        self._stack = translator.stack
        self._broken = translator.ip
        if going_on is not None:
            self._broken = translator.current.index
            self._stack = [*translator.stack, *in_calling_order(going_on)]
        self._entry = self._broken
        prepares = _PREPARES_CALL if going_on is None else _PREPARES_CALL[:1]
        while self._decoded.instructions[self._entry - 1].opname in prepares:
            self._entry -= 1
        self._without_arguments = range(self._entry, self._broken + 1) if going_on is not None else range(0)
        own = {n: c for n, c in translator.cells.items() if n in translator.code.co_cellvars}
        self._own_cells = {n: c for n, c in own.items() if c.source is None}
        self._cell_arguments = [n for n, c in own.items() if c.source is not None]
        self._kept: set[str] = set()
        self._after_drops: set[int] = set()
        self._exits, self._spliced = self._find_exits()

    # ---------------------------------------------------------- where capture goes on

    def _find_exits(self) -> tuple[list[int], set[int]]:
        """Indices where resume functions start, and the instructions that run in eager before."""
        decoded = self._decoded
        _, exits = eager_stretch(decoded, self._broken)
        exits = sorted({self._after_drop(e) for e in exits})
        while True:
            spliced = decoded.reachable_from(self._entry, until=frozenset(exits))
            uncertain = self._maybe_bound_after(spliced)
            good = [
                e
                for e in exits
                if uncertain.isdisjoint(live_names(decoded, e))
                and self._is_worth_resuming(e)
                and self._knows_stack_at(e, spliced)
            ]
            if good == exits:
                return exits, spliced
            exits = good

    def _after_drop(self, index: int) -> int:
        """An exit, moved past the instruction that drops a result: it goes before guards on what comes next look."""
        if self._decoded.instructions[index].opname != "POP_TOP":
            return index
        self._after_drops.add(index + 1)
        return index + 1

    def _maybe_bound_after(self, spliced: set[int]) -> set[str]:
        """Variables of which nobody knows whether the eager part, an exception handler perhaps, binds or unbinds them.

        One that is unbound before, and that the eager part does not store into, is unbound in the resume function too.
        """
        instructions = [self._decoded.instructions[i] for i in spliced]
        stored = {i.argval for i in instructions if i.opname in ("STORE_FAST", "STORE_DEREF")}
        deleted = {i.argval for i in instructions if i.opname in ("DELETE_FAST", "DELETE_DEREF")}
        return (stored - self._tx.locals.keys() - self._tx.cells.keys()) | deleted

    def _knows_stack_at(self, index: int, spliced: set[int]) -> bool:
        """Whether it is known which values of the stack at an exit are NULLs of calls being built.

        Right behind the broken instruction they are those from before it. Elsewhere the eager part may have ended those
        calls and begun others, so that only a stack as low as the lowest on the way is known: nothing was pushed there.
        """
        next_ones = self._decoded.successors(self._broken)
        if index in next_ones or (index in self._after_drops and index - 1 in next_ones):
            return True
        depths = stack_depths(self._decoded)
        lowest = min((d for i in spliced if (d := depths[i]) is not None), default=0)
        depth = depths[index]
        return depth is not None and depth <= lowest

    def _is_worth_resuming(self, index: int) -> bool:
        """Whether anything but leaving the function is left to do."""
        instructions = self._decoded.instructions
        rest = self._decoded.reachable_from(index)
        return any(not instructions[i].opname.startswith(_RUNS_NO_PYTHON) for i in rest)

    def needs_hook(self) -> bool:
        """Whether the eager part may run Python functions, which are to be captured in their own right."""
        return any(not self._decoded.instructions[i].opname.startswith(_RUNS_NO_PYTHON) for i in self._spliced)

    # ---------------------------------------------------------- state

    def adopt_cells(self, codegen: Codegen) -> None:
        """Have what is built from now on share the frame's own cells: effects, too, may leave closures somewhere."""
        codegen.own_cells.update({cell: name for name, cell in self._own_cells.items()})

    def emit_state(self, codegen: Codegen) -> None:
        """Record the code that rebuilds variables and stack, runs the eager part, and calls the resume functions.

        Raises:
            NotReconstructible: a value that is needed cannot be built; the exception being handled is needed always,
                as the context of others.
        """
        if self._tx.handled.value is not None:
            raise NotReconstructible(self._tx.handled.value)
        live = set(live_names(self._decoded, self._entry))
        for name, value in self._tx.locals.items():
            if name in live and not self._is_in_place(name, value):
                codegen(value)
                codegen.op("store_fast", name)
        for name, cell in self._own_cells.items():
            self._emit_cell(codegen, name, cell)
        for name, value in self._tx.locals.items():
            if name not in live:
                self._emit_dead(codegen, name, value)
        for name in self._tx.code.co_varnames[: self._argument_count()]:
            if name not in self._tx.locals and name not in self._tx.cells:
                codegen.op("delete_fast", name)
        self._emit_stack(codegen)
        self._emit_rest(codegen)

    def _emit_dead(self, codegen: Codegen, name: str, value: VariableTracker) -> None:
        """Keep a variable that the code no longer reads, but who looks at the frame: `locals()`, debuggers, tracebacks.

        Not a tensor, which would have to leave the graph, and stay in memory; and nothing else that has to be made.
        """
        if self._is_in_place(name, value):
            if not isinstance(value, LazyVariable) or not isinstance(value.value, torch.Tensor):
                self._kept.add(name)
            return
        is_seen = end_is_seen(value) or self._is_on_stack(value)
        if (is_seen or _costs_nothing(value)) and codegen.try_to_push(value):
            codegen.op("store_fast", name)
            self._kept.add(name)
        elif name in self._tx.code.co_varnames[: self._argument_count()]:
            codegen.op("delete_fast", name)  # it is not what it was when the frame was called

    def _is_shown(self, name: str, cell: CellVariable) -> bool:
        """Whether a cell of the frame that its code no longer reads is kept, as other variables are."""
        if name not in self._own_cells or cell.contents is None:
            return False
        contents = cell.contents
        if isinstance(contents, LazyVariable) and not contents.is_realized():
            return not isinstance(contents.value, torch.Tensor)
        return not isinstance(contents.realize(), TensorVariable)

    def _is_on_stack(self, value: VariableTracker) -> bool:
        """Whether a value, no tensor, is made for the stack anyway."""
        if value.source is not None:
            return False
        made = {id(v) for v in self._stack if v is not NULL and v.source is None}
        return id(value) in made and not isinstance(value, TensorVariable)

    def _emit_stack(self, codegen: Codegen) -> None:
        """Build all values first: a call made while building one would take a NULL below it for its own."""
        for i, value in enumerate(self._stack):
            if value is not NULL:
                codegen(value)
                codegen.op("store_fast", STACK_ARGUMENT.format(i))
        for i, value in enumerate(self._stack):
            if value is NULL:
                codegen.op("push_null")
            else:
                codegen.op("load_fast", STACK_ARGUMENT.format(i))
        codegen.delete_temporaries()
        for i, value in enumerate(self._stack):
            if value is not NULL:
                codegen.op("delete_fast", STACK_ARGUMENT.format(i))

    def _argument_count(self) -> int:
        code = self._tx.code
        return code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)

    def _is_in_place(self, name: str, value: Any) -> bool:
        """Whether a variable is still the argument that the frame was called with."""
        source = value.source
        if source is None or source.accessor != "local":
            return False
        return bool(self._tx.code.co_varnames[source.key] == name)

    def _emit_cell(self, codegen: Codegen, name: str, cell: CellVariable) -> None:
        if cell.contents is not None:
            codegen(cell.contents)
            codegen.op("store_deref", name)
        elif name in self._tx.code.co_varnames[: self._argument_count()]:
            codegen.op("delete_deref", name)

    # ---------------------------------------------------------- eager part and resume functions

    def _emit_rest(self, codegen: Codegen) -> None:
        entry = Label()
        exits = {index: Label() for index in self._exits}
        codegen.op("jump", entry)
        codegen.op("splice", self._decoded, {self._entry: entry}, exits, self._without_arguments)
        depths = stack_depths(self._decoded)
        for index, label in exits.items():
            depth = depths[index]
            assert depth is not None
            codegen.later(functools.partial(_place_label, label=label, depth=depth))
            self._emit_resume(codegen, index, depth)

    def _nulls_at(self, index: int, depth: int) -> tuple[bool, ...]:
        """Which of the values on the stack at an exit are NULLs of calls being built around the broken instruction."""
        broken = self._decoded.instructions[self._broken]
        if broken.opname == "LOAD_METHOD" and index in self._decoded.successors(self._broken):
            return (*(v is NULL for v in self._stack[: depth - 2]), True, False)
        pushed = 0 if broken.opname.startswith(_PUSHES_NOTHING) or index in self._after_drops else 1
        kept = max(0, depth - pushed)
        nulls = [v is NULL for v in self._stack[:kept]]
        return (*nulls, *[False] * (depth - len(nulls)))

    def _emit_resume(self, codegen: Codegen, index: int, depth: int) -> None:
        nulls = self._nulls_at(index, depth)
        live = live_names(self._decoded, index)
        own = [n for n in live if n in self._own_cells or n in self._cell_arguments]
        names = [n for n in live if n in self._tx.locals and n not in own]
        uncertain = self._maybe_bound_after(self._spliced)
        own += sorted(n for n, c in self._tx.cells.items() if n not in (*own, *uncertain) and self._is_shown(n, c))
        names += sorted(n for n in self._kept if n not in live and n not in uncertain)
        point = ResumePoint(index, nulls, tuple(names), tuple(own))
        code = RESUME_FUNCTIONS.code_for(self._tx.code, point)
        EXPECTED_CODE.add(code)
        for i in reversed(range(depth)):
            codegen.op("store_fast", STACK_ARGUMENT.format(i))
        codegen.load_late_constant(_native.go_on)
        self._load_resume_function(codegen, code)
        arguments = code.co_varnames[: code.co_argcount]
        for name in arguments:
            codegen.op("load_closure" if name in own else "load_fast", name)
        codegen.op("call", 1 + len(arguments))
        codegen.op("return_value")

    def _load_resume_function(self, codegen: Codegen, code: Any) -> None:
        freevars = self._tx.code.co_freevars
        codegen.load_late_constant(_native.Compiled)
        codegen.load_late_constant(FunctionType)
        codegen.load_late_constant(code)
        codegen.load_late_constant(globals)
        codegen.op("call", 0)
        codegen.load_late_constant(code.co_name)
        codegen.load_late_constant(None)
        for name in freevars:
            codegen.op("load_closure", name)
        if freevars:
            codegen.op("build_tuple", len(freevars))
        else:
            codegen.load_late_constant(None)
        codegen.op("call", 5)
        codegen.load_late_constant(self._key)
        codegen.load_late_constant(self._convert)
        codegen.op("call", 3)

    def builder(self, arguments: tuple[str, ...]) -> CodeBuilder:
        """The builder of the replacement code."""
        code = self._tx.code
        return CodeBuilder(
            name=code.co_name,
            qualname=code.co_qualname,
            filename=code.co_filename,
            firstlineno=code.co_firstlineno,
            arguments=arguments,
            freevars=code.co_freevars,
            cell_arguments=tuple(self._cell_arguments),
            cellvars=tuple(n for n in code.co_cellvars if n not in self._cell_arguments),
        )
