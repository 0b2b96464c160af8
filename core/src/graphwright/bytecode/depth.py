"""How deep the value stack is before each instruction of a code object."""

from __future__ import annotations

from graphwright.bytecode.encode import GENERATOR_FLAGS
from graphwright.bytecode.instruction import DecodedCode
from graphwright.bytecode.stack import stack_effect
from graphwright.bytecode.versions import GENERATOR_STARTS_WITH_VALUE


def stack_depths(decoded: DecodedCode) -> list[int | None]:
    """Return the stack depth before each instruction; None where control never arrives."""
    depths: list[int | None] = [None] * len(decoded)
    starts_with_value = GENERATOR_STARTS_WITH_VALUE and decoded.code.co_flags & GENERATOR_FLAGS
    pending = [(0, 1 if starts_with_value else 0)]
    while pending:
        index, depth = pending.pop()
        if depths[index] is not None:
            continue
        depths[index] = depth
        instruction = decoded.instructions[index]
        for following in decoded.successors(index):
            jump = following == instruction.target and following != index + 1
            pending.append((following, depth + stack_effect(instruction.opcode, instruction.arg or 0, jump)))
        handler = decoded.handler_for(index)
        if handler is not None:
            pending.append((handler.target, handler.depth + (2 if handler.lasti else 1)))
    return depths
