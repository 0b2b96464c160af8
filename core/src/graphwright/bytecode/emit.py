"""The state in which replacement code is emitted: operations, positions, labels, regions and the value stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType

from bytecode.instr import InstrLocation

from graphwright.bytecode.encode import GENERATOR_FLAGS, CodeHeader, encode
from graphwright.bytecode.errors import AssemblyError
from graphwright.bytecode.instruction import DecodedCode, Instruction
from graphwright.bytecode.operands import VariableSlots, instruction_location, line_location, opcode_of, written_operand
from graphwright.bytecode.splice import splice_items
from graphwright.bytecode.stack import Item, Label, Operation, Region, Slot, StackTracker
from graphwright.bytecode.versions import GENERATOR_STARTS_WITH_VALUE, NO_FALL_THROUGH, NULL_BELOW_CALLABLE

FUNCTION_FLAGS = 0x01 | 0x02  # CO_OPTIMIZED, CO_NEWLOCALS

_VARIADIC_FLAGS = 0x04 | 0x08  # CO_VARARGS, CO_VARKEYWORDS


class Emitter:
    """Collects operations and assembles them; `CodeBuilder` adds a method for each instruction.

    Args:
        name: `co_name` of the result.
        qualname: `co_qualname`.
        filename: `co_filename`.
        firstlineno: `co_firstlineno`, and the line of instructions until `set_lineno`.
        arguments: Names of the arguments, all plain positional. Other locals come to be by being stored.
        freevars: Names of the free variables, in the order of the function's closure.
        flags: `co_flags`.
        cellvars: Names of own variables that live in a cell; the cell is made before the first instruction, and takes
            over the value of an argument of that name.
        cell_arguments: Names of arguments whose value is already a cell object; `load_deref` and its like then act
            on that cell. This is how code that goes on in the middle of another frame gets that frame's cells.
        late_cells: Names like `cellvars`, whose cells `make_cell` makes, on the one path that needs them. Until then
            only an argument of that name has a value, and no instruction here reaches it.
    """

    def __init__(
        self,
        name: str,
        qualname: str,
        filename: str,
        firstlineno: int,
        arguments: Sequence[str] = (),
        freevars: Sequence[str] = (),
        flags: int = FUNCTION_FLAGS,
        *,
        cellvars: Sequence[str] = (),
        cell_arguments: Sequence[str] = (),
        late_cells: Sequence[str] = (),
    ) -> None:
        all_cells = (*cell_arguments, *cellvars, *late_cells)
        _refuse_repeated("arguments", arguments)
        _refuse_repeated("cells and free variables", (*all_cells, *freevars))
        _refuse_repeated("arguments and free variables", (*arguments, *freevars))
        if flags & _VARIADIC_FLAGS:
            raise AssemblyError(f"flags {flags:#x} ask for *args or **kwargs; all arguments are plain positional here")
        unknown = [cell for cell in cell_arguments if cell not in arguments]
        if unknown:
            raise AssemblyError(f"cell_arguments {unknown} are not among the arguments {list(arguments)}")
        self._header = CodeHeader(
            name, qualname, filename, firstlineno, tuple(arguments), tuple(freevars), all_cells, flags
        )
        self._slots = VariableSlots(all_cells, tuple(freevars))
        self.late_cells = frozenset(late_cells)
        self._items: list[Item] = []
        self._placed: set[Label] = set()
        self._regions: list[Region] = []
        self._stack = StackTracker()
        self._location = InstrLocation(firstlineno, firstlineno, 0, 0)  # as CPython's compiler gives
        self._emit_prologue(cellvars, cell_arguments)
        self._location = line_location(firstlineno)

    # --- Positions in the user's source

    def set_lineno(self, lineno: int) -> None:
        """Give the instructions that follow this line."""
        self._location = line_location(lineno)

    def set_position(self, instruction: Instruction) -> None:
        """Give the instructions that follow the line and columns of a decoded instruction."""
        self._location = instruction_location(instruction)

    # --- Labels

    def new_label(self, name: str = "") -> Label:
        """Return a label to jump to; `label` places it."""
        return Label(name)

    def label(self, label: Label | None = None, *, depth: int | None = None) -> Label:
        """Place a label here, a new one by default, and return it.

        Args:
            label: The label.
            depth: Stack depth here; needed only where nothing emitted so far leads here.
        """
        label = label if label is not None else Label()
        if label in self._placed:
            raise AssemblyError(f"{label!r} is placed twice")
        self._stack.arrive(label, depth)
        self._placed.add(label)
        self._items.append(label)
        return label

    # --- Exceptions

    def try_begin(self, handler: Label, *, lasti: bool = False, depth: int | None = None) -> Region:
        """Protect the instructions that follow, until `try_end`; regions nest.

        At `handler` the stack is cut to the depth here, then the exception is on top of it.

        Args:
            handler: Where to go on when one of them raises.
            lasti: Whether the offset of the raising instruction is pushed below the exception (for RERAISE 1).
            depth: Stack depth to keep, where it is not the depth here.
        """
        kept = depth if depth is not None else len(self._stack.known_slots("try_begin"))
        self._stack.expect_handler(handler, kept, lasti + 1)
        region = Region(handler, lasti, kept)
        self._regions.append(region)
        return region

    def try_end(self, region: Region) -> None:
        """End the protection that `try_begin` began."""
        if not self._regions or self._regions[-1] is not region:
            raise AssemblyError("try_end: this region is not the innermost open one")
        self._stack.barrier()
        self._regions.pop()

    @contextmanager
    def protected_by(self, handler: Label, *, lasti: bool = False, depth: int | None = None) -> Iterator[Region]:
        """Protect the instructions emitted in the `with` block; see `try_begin`."""
        region = self.try_begin(handler, lasti=lasti, depth=depth)
        yield region
        self.try_end(region)

    # --- Other code, and the end

    def splice(
        self,
        decoded: DecodedCode,
        entries: Mapping[int, Label],
        exits: Mapping[int, Label] | None = None,
        without_arguments: range = range(0),
    ) -> None:
        """Emit the instructions of another code object that can run when control starts at `entries`.

        They keep their positions and their exception handlers. Locals go by name; cells and free variables must be
        cells or free variables of this builder. Control must not fall into them: jump to the labels, with the stack
        that the other code has there.

        Args:
            decoded: The other code.
            entries: Labels to be placed before instructions, by instruction index.
            exits: Where control leaves the other code: instead of running the instruction, it jumps to the label, which
                the caller places.
            without_arguments: Instructions of the call that control enters at, which is to take no arguments this
                once, whatever the other code gives it.
        """
        if self._stack.slots is not None:
            raise AssemblyError("splice: control falls into the other code; jump to one of its entries first")
        items = splice_items(decoded, entries, exits or {}, self._slots, self._innermost_region(), without_arguments)
        for label in entries.values():
            if label in self._placed:
                raise AssemblyError(f"{label!r} is placed twice")
        self._placed.update(entries.values())
        self._items.extend(items)

    def assemble(self) -> CodeType:
        """Return the code object.

        Raises:
            AssemblyError: The instructions can't run: the stack underflows or differs between two ways to one place,
                control runs past the end, a label is not placed, or a region is not ended.
        """
        if self._regions:
            raise AssemblyError(f"{len(self._regions)} exception regions were begun and not ended")
        return encode(self._header, self._items)

    # --- Inside

    def _emit_prologue(self, cellvars: Sequence[str], cell_arguments: Sequence[str]) -> None:
        # CPython recognises frames that have not started by COPY_FREE_VARS being first.
        if self._header.freevars:
            self._emit("COPY_FREE_VARS", len(self._header.freevars))
        for cell in cellvars:
            self._emit("MAKE_CELL", cell)
        if self._header.flags & GENERATOR_FLAGS:
            if GENERATOR_STARTS_WITH_VALUE:
                self._stack.slots = [Slot()]
            self._emit("RETURN_GENERATOR")
            self._emit("POP_TOP")
        self._emit("RESUME", 0)
        self._note_given_cells(cell_arguments)

    def _note_given_cells(self, cell_arguments: Sequence[str]) -> None:
        """Let `locals()` and `super()` look into cells that are given: they look for a MAKE_CELL further up.

        Nothing runs it. Source: CPython, `Objects/frameobject.c`, `_PyFrame_OpAlreadyRan`.
        """
        if not cell_arguments:
            return
        after = Label("after the cells")
        self._emit("JUMP_FORWARD", after)
        for cell in cell_arguments:
            self._emit("MAKE_CELL", cell)
        self.label(after)

    def _emit(self, opname: str, value: object = None) -> None:
        operand = written_operand(opname, value, self._slots)
        operation = Operation(
            opname, opcode_of(opname), operand.argument, operand.effect, self._location, self._innermost_region()
        )
        if operation.label is not None:
            self._stack.jump_to(operation.label, operation.effect(jump=True))
        self._stack.apply(operation, len(self._items))
        self._items.append(operation)
        if operation.opcode in NO_FALL_THROUGH:
            self._stack.slots = None

    def _innermost_region(self) -> Region | None:
        return self._regions[-1] if self._regions else None

    def _place_null(self, nargs: int, wanted_for: str) -> None:
        """See to it that NULL is where a call of `nargs` values expects it."""
        slots = self._stack.known_slots(wanted_for)
        callable_at = len(slots) - nargs - 1
        present_at = callable_at - 1 if NULL_BELOW_CALLABLE else callable_at
        if present_at >= 0 and slots[present_at].is_null:
            return
        if callable_at < 0:
            raise AssemblyError(f"{wanted_for}: {nargs} values and their callable on a stack of {len(slots)}")
        null_at = callable_at if NULL_BELOW_CALLABLE else callable_at + 1
        start = slots[null_at].start if null_at < len(slots) else len(self._items)
        if start is None:
            self._emit("PUSH_NULL")
            for depth in range(len(slots) - null_at, 1, -1):
                self._emit("SWAP", depth)
            return
        first = self._items[start] if start < len(self._items) else None
        location = first.location if isinstance(first, Operation) else self._location
        opcode = opcode_of("PUSH_NULL")
        self._items.insert(start, Operation("PUSH_NULL", opcode, None, 0, location, self._innermost_region()))
        self._stack.insert_null(null_at, start)


def _refuse_repeated(what: str, names: Sequence[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise AssemblyError(f"{what} name {repeated} more than once")
