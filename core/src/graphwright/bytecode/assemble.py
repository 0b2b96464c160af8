"""Emits replacement code: one method an instruction, labels, exception regions, then a code object."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from graphwright.bytecode.emit import Emitter
from graphwright.bytecode.encode import interning_replaces
from graphwright.bytecode.errors import AssemblyError
from graphwright.bytecode.stack import Label
from graphwright.bytecode.versions import (
    BINARY_OPERATORS,
    CALL_NEEDS_PRECALL,
    CONDITIONS_NEED_BOOL,
    END_OF_LOOP,
    FUNCTION_ATTRIBUTES_SET_APART,
    HAS_BACKWARD_CONDITIONS,
    KEYWORD_NAMES_BY_CONST,
    LOCAL_OPCODES_REACH_CELLS,
    METHOD_LOAD_IS_ATTR,
    NULL_BELOW_CALLABLE,
    conditional_jump,
)

_OPPOSITE = {"TRUE": "FALSE", "FALSE": "TRUE", "NONE": "NOT_NONE", "NOT_NONE": "NONE"}


class CodeBuilder(Emitter):
    """Builds a code object instruction by instruction.

    The callable of a call is loaded before its arguments, and nothing else is needed: `call` finds where the NULL
    of this Python's calling convention goes.

        builder = CodeBuilder("f", "f", "model.py", 12, ("x", "inputs"))
        builder.load_global("compiled")
        builder.load_fast("inputs")
        builder.call_ex()
        builder.return_value()
        code = builder.assemble()

    The arguments are those of `Emitter`.
    """

    # --- Values and variables

    def load_const(self, value: object) -> None:
        """Push `value` itself: never an equal object in its place.

        The garbage collector does not look into code objects: a constant that leads back to the code is never freed.
        """
        if not interning_replaces(value):
            self._emit("LOAD_CONST", value)
            return
        # A list is a place that interning does not look into.
        self._emit("LOAD_CONST", [value])
        self._emit("LOAD_CONST", 0)
        self.binary_subscr()

    def load_fast(self, name: str) -> None:
        """Push a local. On a cell it pushes the content, as `load_deref`."""
        self._emit("LOAD_DEREF" if self._slots.is_cell(name) else "LOAD_FAST", name)

    def store_fast(self, name: str) -> None:
        """Pop into a local. On a cell it stores the content, as `store_deref`."""
        self._emit("STORE_DEREF" if self._slots.is_cell(name) else "STORE_FAST", name)

    def delete_fast(self, name: str) -> None:
        """Unbind a local. On a cell it empties the cell, as `delete_deref`."""
        self._emit("DELETE_DEREF" if self._slots.is_cell(name) else "DELETE_FAST", name)

    def load_deref(self, name: str) -> None:
        """Push the content of a cell or free variable."""
        self._emit("LOAD_DEREF", name)

    def store_deref(self, name: str) -> None:
        """Pop into a cell or free variable."""
        self._emit("STORE_DEREF", name)

    def delete_deref(self, name: str) -> None:
        """Empty a cell or free variable."""
        self._emit("DELETE_DEREF", name)

    def make_cell(self, name: str) -> None:
        """Make the cell of one of the `late_cells`, around the value of the argument of that name, if it is one."""
        self._emit("MAKE_CELL", name)

    def load_closure(self, name: str) -> None:
        """Push the cell object of a cell or free variable."""
        self._slots.cell("load_closure", name)
        self._emit("LOAD_FAST" if LOCAL_OPCODES_REACH_CELLS else "LOAD_CLOSURE", name)

    def load_global(self, name: str) -> None:
        """Push a global, or else a builtin."""
        self._emit("LOAD_GLOBAL", name)

    def store_global(self, name: str) -> None:
        """Pop into a global."""
        self._emit("STORE_GLOBAL", name)

    def delete_global(self, name: str) -> None:
        """Delete a global."""
        self._emit("DELETE_GLOBAL", name)

    def load_attr(self, name: str) -> None:
        """Replace the top by its attribute."""
        self._emit("LOAD_ATTR", name)

    def load_attrs(self, path: str) -> None:
        """Replace the top by an attribute of an attribute…, written `a.b.c`."""
        for name in path.split("."):
            self.load_attr(name)

    def store_attr(self, name: str) -> None:
        """Stack: (value, object -- ). Set an attribute."""
        self._emit("STORE_ATTR", name)

    def delete_attr(self, name: str) -> None:
        """Stack: (object -- ). Delete an attribute."""
        self._emit("DELETE_ATTR", name)

    # --- Calls

    def load_method(self, name: str) -> None:
        """Replace the top by a method to be called by `call`, without making a bound method."""
        slots = self._stack.known_slots("load_method")
        self._emit(*(("LOAD_ATTR", (True, name)) if METHOD_LOAD_IS_ATTR else ("LOAD_METHOD", name)))
        slots[-2 if NULL_BELOW_CALLABLE else -1].is_null = True

    def push_null(self) -> None:
        """Push the NULL of a call by hand; `call` and `call_ex` do it themselves where it is missing."""
        self._emit("PUSH_NULL")
        self._stack.known_slots("push_null")[-1].is_null = True

    def call(self, nargs: int, kwnames: Sequence[str] = ()) -> None:
        """Stack: (callable, *arguments -- result). Call.

        Args:
            nargs: Number of arguments on the stack, keyword ones included.
            kwnames: Names of the last arguments, when they are passed by keyword.
        """
        if len(kwnames) > nargs:
            raise AssemblyError(f"call: {len(kwnames)} keyword names for {nargs} arguments")
        self._place_null(nargs, "call")
        names = tuple(map(sys.intern, kwnames))
        if names and KEYWORD_NAMES_BY_CONST:
            self._emit("LOAD_CONST", names)
            self._emit("CALL_KW", nargs)
            return
        if names:
            self._emit("KW_NAMES", names)
        if CALL_NEEDS_PRECALL:
            self._emit("PRECALL", nargs)
        self._emit("CALL", nargs)

    def call_ex(self, has_kwargs: bool = False) -> None:
        """Stack: (callable, tuple[, dict] -- result). Call with unpacked arguments."""
        self._place_null(1 + has_kwargs, "call_ex")
        self._emit("CALL_FUNCTION_EX", int(has_kwargs))

    def make_function(self, *, closure: bool = False) -> None:
        """Stack: ([tuple of cells,] code -- function). Make a function with the globals of this one."""
        if FUNCTION_ATTRIBUTES_SET_APART:
            self._emit("MAKE_FUNCTION")
            if closure:
                self._emit("SET_FUNCTION_ATTRIBUTE", 8)
            return
        self._emit("MAKE_FUNCTION", 8 if closure else 0)

    # --- Containers and operators

    def build_tuple(self, count: int) -> None:
        """Stack: (*values -- tuple)."""
        self._emit("BUILD_TUPLE", count)

    def build_list(self, count: int) -> None:
        """Stack: (*values -- list)."""
        self._emit("BUILD_LIST", count)

    def build_set(self, count: int) -> None:
        """Stack: (*values -- set)."""
        self._emit("BUILD_SET", count)

    def build_map(self, count: int) -> None:
        """Stack: (key, value, … of `count` pairs -- dict)."""
        self._emit("BUILD_MAP", count)

    def build_slice(self, count: int) -> None:
        """Stack: (start, stop[, step] -- slice)."""
        self._emit("BUILD_SLICE", count)

    def build_string(self, count: int) -> None:
        """Stack: (*strings -- string)."""
        self._emit("BUILD_STRING", count)

    def unpack_sequence(self, count: int) -> None:
        """Stack: (sequence -- *values), the first value on top."""
        self._emit("UNPACK_SEQUENCE", count)

    def list_extend(self) -> None:
        """Stack: (list, iterable -- list)."""
        self._emit("LIST_EXTEND", 1)

    def binary_subscr(self) -> None:
        """Stack: (container, key -- value)."""
        self._emit("BINARY_SUBSCR")

    def store_subscr(self) -> None:
        """Stack: (value, container, key -- )."""
        self._emit("STORE_SUBSCR")

    def delete_subscr(self) -> None:
        """Stack: (container, key -- )."""
        self._emit("DELETE_SUBSCR")

    def binary_op(self, symbol: str) -> None:
        """Stack: (left, right -- result). `symbol` is `+`, `@`, `+=`, …"""
        if symbol not in BINARY_OPERATORS:
            raise AssemblyError(f"no operator {symbol!r}; expected one of {' '.join(BINARY_OPERATORS)}")
        self._emit("BINARY_OP", BINARY_OPERATORS.index(symbol))

    def compare_op(self, symbol: str) -> None:
        """Stack: (left, right -- result). `symbol` is `<`, `==`, …"""
        self._emit("COMPARE_OP", symbol)

    def is_op(self, *, invert: bool = False) -> None:
        """Stack: (left, right -- bool). `is`, or `is not`."""
        self._emit("IS_OP", int(invert))

    def contains_op(self, *, invert: bool = False) -> None:
        """Stack: (item, container -- bool). `in`, or `not in`."""
        self._emit("CONTAINS_OP", int(invert))

    def unary_not(self) -> None:
        """Stack: (value -- bool)."""
        self._to_bool()
        self._emit("UNARY_NOT")

    # --- Stack order

    def pop_top(self) -> None:
        """Drop the top."""
        self._emit("POP_TOP")

    def copy(self, depth: int = 1) -> None:
        """Push again the value at `depth`; 1 is the top."""
        self._emit("COPY", depth)

    def swap(self, depth: int = 2) -> None:
        """Exchange the top with the value at `depth`; 2 is the one below the top."""
        self._emit("SWAP", depth)

    def rotate(self, count: int) -> None:
        """Move the top down so that it is the lowest of the `count` topmost values."""
        for depth in range(count, 1, -1):
            self.swap(depth)

    # --- Leaving

    def return_value(self) -> None:
        """Return the top."""
        self._emit("RETURN_VALUE")

    def raise_(self, nargs: int = 1) -> None:
        """Raise: 0 re-raises the current exception, 1 takes (exception), 2 takes (exception, cause)."""
        self._emit("RAISE_VARARGS", nargs)

    # --- Inside exception handlers

    def push_exc_info(self) -> None:
        """Stack: (exception -- previous exception, exception). First instruction of a handler: it is now handled."""
        self._emit("PUSH_EXC_INFO")

    def pop_except(self) -> None:
        """Stack: (previous exception -- ). Last instruction of a handler that does not raise."""
        self._emit("POP_EXCEPT")

    def check_exc_match(self) -> None:
        """Stack: (exception, type or tuple -- exception, bool)."""
        self._emit("CHECK_EXC_MATCH")

    def reraise(self, depth: int = 0) -> None:
        """Stack: (exception -- ). Raise it again, with the instruction offset at `depth` when that is not 0.

        A handler that began with `push_exc_info` must undo that first, `swap(); pop_except(); reraise()`: code that is
        left without it leaves the exception the current one of the whole thread.
        """
        self._emit("RERAISE", depth)

    # --- Jumps

    def jump(self, label: Label) -> None:
        """Jump, forward or backward."""
        self._emit("JUMP_BACKWARD" if label in self._placed else "JUMP_FORWARD", label)

    def pop_jump_if_true(self, label: Label) -> None:
        """Pop, and jump if the value is true."""
        self._to_bool()
        self._jump_if("TRUE", label)

    def pop_jump_if_false(self, label: Label) -> None:
        """Pop, and jump if the value is false."""
        self._to_bool()
        self._jump_if("FALSE", label)

    def pop_jump_if_none(self, label: Label) -> None:
        """Pop, and jump if the value is None."""
        self._jump_if("NONE", label)

    def pop_jump_if_not_none(self, label: Label) -> None:
        """Pop, and jump if the value is not None."""
        self._jump_if("NOT_NONE", label)

    def get_iter(self) -> None:
        """Stack: (iterable -- iterator)."""
        self._emit("GET_ITER")

    def for_iter(self, end: Label) -> None:
        """Stack: (iterator -- iterator, value), or jump to `end`, where `end_for` must be called."""
        self._emit("FOR_ITER", end)

    def end_for(self, end: Label) -> None:
        """Place the label at which a loop ends; the iterator is gone there."""
        self.label(end)
        for opname in END_OF_LOOP:
            self._emit(opname)

    # --- Anything else

    def raw(self, opname: str, argument: object = None) -> None:
        """Emit any instruction of this Python.

        Args:
            opname: Its name in `dis`.
            argument: What it takes: a name (or `(flag, name)` where the low bit means something), a constant, a
                `Label`, an operator symbol, or the raw integer.
        """
        self._stack.barrier()
        self._emit(opname, argument)
        self._stack.barrier()

    # --- Inside

    def _to_bool(self) -> None:
        if CONDITIONS_NEED_BOOL:
            self._emit("TO_BOOL")

    def _jump_if(self, condition: str, label: Label) -> None:
        backward = label in self._placed
        if not backward or HAS_BACKWARD_CONDITIONS:
            self._emit(conditional_jump(condition, backward=backward), label)
            return
        around = Label(f"around the jump to {label.name}")
        self._emit(conditional_jump(_OPPOSITE[condition], backward=False), around)
        self._emit("JUMP_BACKWARD", label)
        self.label(around)
