"""Turns decoded instructions back into operations, so that code can go on in the middle of other code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphwright.bytecode.errors import AssemblyError
from graphwright.bytecode.instruction import DecodedCode, ExceptionRange, Instruction
from graphwright.bytecode.operands import Operand, VariableSlots, decoded_operand, instruction_location, opcode_of
from graphwright.bytecode.stack import Item, Label, Operation, Region
from graphwright.bytecode.versions import ARG_KINDS, LOCAL_PAIRS, ArgKind

_PROLOGUE = frozenset({"MAKE_CELL", "COPY_FREE_VARS", "RETURN_GENERATOR", "POP_TOP", "RESUME"})


def splice_items(
    decoded: DecodedCode,
    entries: Mapping[int, Label],
    exits: Mapping[int, Label],
    slots: VariableSlots,
    outer: Region | None,
    without_arguments: range = range(0),
) -> list[Item]:
    """Return the operations that can run when control starts at `entries`.

    The prologue of the code (making cells, taking over the closure) is left out: the builder has its own.

    Args:
        decoded: The code to take instructions from.
        entries: Labels to place before instructions, by instruction index.
        exits: Labels to jump to instead of running instructions, by instruction index.
        slots: Which names are cells and free variables in the new code.
        outer: Region of the new code around all of them.
        without_arguments: Instructions of the call that control enters at, which is to take no arguments this once;
            where control comes back to it, in a loop, it takes those it has.
    """
    unknown = [index for index in entries if not 0 <= index < len(decoded)]
    if unknown:
        raise AssemblyError(f"{decoded!r} has no instructions {unknown} to enter at")
    return _Splicer(decoded, entries, exits, slots, outer, without_arguments).items()


class _Splicer:
    def __init__(
        self,
        decoded: DecodedCode,
        entries: Mapping[int, Label],
        exits: Mapping[int, Label],
        slots: VariableSlots,
        outer: Region | None,
        without_arguments: range,
    ) -> None:
        self._decoded = decoded
        self._slots = slots
        self._outer = outer
        self._entries = entries
        self._without_arguments = without_arguments
        self._exits = exits
        until = frozenset(exits)
        self._reachable = decoded.reachable_from(*(set(self._starts()) - until), until=until)
        inner = {index: label for index, label in entries.items() if index not in without_arguments}
        self._labels: dict[int, Label] = {**exits, **inner}
        self._regions: dict[ExceptionRange, Region] = {}
        self._cells = frozenset(decoded.code.co_cellvars + decoded.code.co_freevars)
        self._body_start = _body_start(decoded)

    def items(self) -> list[Item]:
        """Return labels and operations in the order of the original code, the call without arguments before them."""
        first = self._call_without_arguments()
        emitted: list[tuple[int, list[Operation]]] = []
        for index in sorted(self._reachable):
            skipped = index < self._body_start
            emitted.append((index, [] if skipped else self._operations(self._decoded.instructions[index])))
        items = first
        for index, operations in emitted:  # Only now are all labels known.
            if index in self._labels:
                items.append(self._labels[index])
            items.extend(operations)
            following = index + 1
            if following in self._exits and following in self._decoded.successors(index):
                items.append(self._jump_out(index, self._exits[following]))
        return items

    def _starts(self) -> Iterator[int]:
        """Where control begins to run the original's instructions: for the call without arguments, behind it."""
        for index in self._entries:
            if index not in self._without_arguments:
                yield index
        for index in self._without_arguments:
            handler = self._decoded.handler_for(index)
            if handler is not None:
                yield handler.target
        if self._without_arguments:
            yield self._without_arguments.stop

    def _call_without_arguments(self) -> list[Item]:
        call = self._without_arguments
        if not call:
            return []
        instructions = [self._decoded.instructions[index] for index in call]
        operations = [self._operation(i, i.opname, Operand(0, 0)) for i in instructions]
        behind = self._operation(instructions[-1], "JUMP_FORWARD", Operand(self._label(call.stop)))
        return [self._entries[call.start], *operations, behind]

    def _jump_out(self, index: int, label: Label) -> Operation:
        instruction = self._decoded.instructions[index]
        return self._operation(instruction, "JUMP_FORWARD", Operand(label))

    def _operations(self, instruction: Instruction) -> list[Operation]:
        if instruction.opcode in LOCAL_PAIRS:
            parts = list(zip(LOCAL_PAIRS[instruction.opcode], instruction.argval, strict=True))
            for _, name in parts:
                self._check_variable(name)
            return [
                self._operation(instruction, opname, Operand(self._slots.local(opname, name))) for opname, name in parts
            ]
        if instruction.opname == "LOAD_METHOD" and self._exits and instruction.index in self._entries:
            return self._attribute_and_null(instruction)
        if instruction.target is not None:
            return [self._operation(instruction, instruction.opname, Operand(self._label(instruction.target)))]
        if ARG_KINDS[instruction.opcode] in (ArgKind.LOCAL, ArgKind.FREE):
            self._check_variable(instruction.argval)
        return [self._operation(instruction, instruction.opname, decoded_operand(instruction, self._slots))]

    def _attribute_and_null(self, instruction: Instruction) -> list[Operation]:
        """LOAD_METHOD, with a result of known form for those who look at the stack after it: NULL and the attribute."""
        name = decoded_operand(instruction, self._slots)
        parts = (("LOAD_ATTR", name), ("PUSH_NULL", Operand(None)), ("SWAP", Operand(2, 2)))
        return [self._operation(instruction, opname, operand) for opname, operand in parts]

    def _operation(self, instruction: Instruction, opname: str, operand: Operand) -> Operation:
        return Operation(
            opname,
            opcode_of(opname),
            operand.argument,
            operand.effect,
            instruction_location(instruction),
            self._region(instruction.index),
        )

    def _check_variable(self, name: str) -> None:
        """Refuse a variable that is a cell in one of the two codes only: LOAD_FAST means the cell in one of them."""
        was_cell = name in self._cells
        if was_cell != self._slots.is_cell(name):
            raise AssemblyError(
                f"variable {name!r} is a {'cell' if was_cell else 'plain local'} in {self._decoded!r}, "
                f"but a {'plain local' if was_cell else 'cell'} in the new code"
            )

    def _label(self, index: int) -> Label:
        return self._labels.setdefault(index, Label(f"instruction {index} of {self._decoded.code.co_name}"))

    def _region(self, index: int) -> Region | None:
        found = self._decoded.handler_for(index)
        if found is None:
            return self._outer
        if found not in self._regions:
            self._regions[found] = Region(self._label(found.target), found.lasti, found.depth)
        return self._regions[found]


def _body_start(decoded: DecodedCode) -> int:
    """Return the index of the first instruction after the prologue."""
    for instruction in decoded.instructions:
        if instruction.opname not in _PROLOGUE:
            break
        if instruction.opname == "RESUME":
            return instruction.index + 1
    return 0
