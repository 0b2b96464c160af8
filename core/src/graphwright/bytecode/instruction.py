"""The decoded form of a code object: instructions, exception ranges and the maps between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from graphwright.bytecode.errors import BytecodeError
from graphwright.bytecode.versions import NO_FALL_THROUGH


@dataclass(slots=True, eq=False)
class Instruction:
    """One instruction, with EXTENDED_ARG folded in and CACHE entries dropped. Compared by identity; don't modify."""

    index: int
    """Position in `DecodedCode.instructions`."""
    offset: int
    """Byte offset of the instruction itself, after its EXTENDED_ARG prefixes."""
    opcode: int
    opname: str
    arg: int | None
    """The raw argument: the low bit of LOAD_GLOBAL's says whether NULL is pushed too. None: takes no argument."""
    argval: Any
    """The argument resolved as `dis` does: name, constant, comparison, byte offset of a jump target, or `arg`."""
    target: int | None
    """Index of the instruction jumped to, or None when this is not a jump."""
    line: int | None
    end_line: int | None
    col: int | None
    end_col: int | None

    def __repr__(self) -> str:
        argument = "" if self.arg is None else f" {self.arg} ({self.argval!r})"
        return f"<{self.index}: {self.opname}{argument} line {self.line}>"


@dataclass(slots=True, frozen=True)
class ExceptionRange:
    """Instructions protected by one handler, as instruction indices."""

    start: int
    """First instruction protected."""
    end: int
    """First instruction after the protected ones."""
    target: int
    """First instruction of the handler."""
    depth: int
    """Stack depth to which the stack is cut before the handler starts."""
    lasti: bool
    """Whether the offset of the raising instruction is pushed below the exception."""


@dataclass(slots=True, eq=False)
class DecodedBody:
    """What decoding a code object yields, without the code object itself, so that a memo may keep it."""

    instructions: list[Instruction]
    exception_table: list[ExceptionRange]
    handlers: list[ExceptionRange | None]
    """For each instruction, the range that protects it."""
    unit_index: list[int]
    """For each two-byte unit of `co_code`, the instruction it belongs to (prefixes and caches included)."""
    live_before: list[int] | None = field(default=None, repr=False)
    """Filled by `liveness`: for each instruction, a bit mask of live variables."""


@dataclass(slots=True, eq=False, repr=False)
class DecodedCode:
    """A code object with its decoded instructions."""

    code: CodeType
    body: DecodedBody
    instructions: list[Instruction] = field(init=False)
    exception_table: list[ExceptionRange] = field(init=False)

    def __post_init__(self) -> None:
        self.instructions = self.body.instructions
        self.exception_table = self.body.exception_table

    def __len__(self) -> int:
        return len(self.instructions)

    def __repr__(self) -> str:
        return f"<DecodedCode {self.code.co_qualname} of {len(self)} instructions>"

    def handler_for(self, index: int) -> ExceptionRange | None:
        """Return the range whose handler runs when instruction `index` raises, or None."""
        return self.body.handlers[index]

    def index_at(self, offset: int) -> int:
        """Return the index of the instruction at a byte offset of `co_code`.

        Offsets inside its EXTENDED_ARG prefixes or its caches belong to the instruction: `f_lasti` of a frame that
        is calling a Python function points into the caches of CALL.

        Raises:
            BytecodeError: No instruction is there.
        """
        unit = offset >> 1
        if offset < 0 or unit >= len(self.body.unit_index):
            raise BytecodeError(f"{self.code.co_qualname}: no instruction at byte offset {offset}")
        return self.body.unit_index[unit]

    def successors(self, index: int) -> tuple[int, ...]:
        """Return the instructions that may run after `index` when it does not raise."""
        instruction = self.instructions[index]
        falls_through = instruction.opcode not in NO_FALL_THROUGH
        if instruction.target is None:
            return (index + 1,) if falls_through else ()
        return (index + 1, instruction.target) if falls_through else (instruction.target,)

    def reachable_from(self, *starts: int, until: frozenset[int] = frozenset()) -> set[int]:
        """Return every instruction that may run when control starts at `starts`, handlers included.

        Args:
            starts: Indices of instructions.
            until: Instructions where control stops; they are not among the result, unless they are `starts`.
        """
        found: set[int] = set()
        pending = list(starts)
        while pending:
            index = pending.pop()
            if index in found:
                continue
            found.add(index)
            pending.extend(s for s in self.successors(index) if s not in until)
            handler = self.body.handlers[index]
            if handler is not None and handler.target not in until:
                pending.append(handler.target)
        return found
