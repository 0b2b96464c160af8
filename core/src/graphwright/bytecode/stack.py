"""What is on the value stack while code is emitted, and how deep it gets.

`StackTracker` follows the stack during emission so that a call can find its callable; `measure_stack` walks the
finished operations and is what the stack size and the depths in the exception table are taken from.
"""

from __future__ import annotations

import dis
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import bytecode as bytecode_library
from bytecode.instr import DYNAMIC_STACK_EFFECTS, STATIC_STACK_EFFECTS, InstrLocation

from graphwright.bytecode.errors import AssemblyError
from graphwright.bytecode.versions import GENERATOR_STARTS_WITH_VALUE, HAS_ARG, NO_FALL_THROUGH


class Label(bytecode_library.Label):
    """A place in the code that jumps and exception regions name."""

    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name or f"label at {id(self):#x}"

    def __repr__(self) -> str:
        return f"<Label {self.name}>"


@dataclass(eq=False, slots=True)
class Region:
    """Operations protected by one exception handler."""

    handler: Label
    lasti: bool
    depth: int | None
    """Stack depth kept when the handler starts; None: the depth where the region starts."""


@dataclass(eq=False, repr=False, slots=True)
class Operation:
    """One instruction to be assembled."""

    opname: str
    opcode: int
    argument: object
    """Argument as the `bytecode` library takes it; a `Label` for jumps; None when there is none."""
    effect_argument: int
    """The raw integer as far as the stack effect depends on it."""
    location: InstrLocation | None
    region: Region | None

    def __repr__(self) -> str:
        return f"<{self.opname}{'' if self.argument is None else f' {self.argument!r}'}>"

    @property
    def label(self) -> Label | None:
        """Where this operation jumps to, if it does."""
        return self.argument if isinstance(self.argument, Label) else None

    def effect(self, *, jump: bool) -> int:
        """Return by how much the operation changes the stack depth."""
        return stack_effect(self.opcode, self.effect_argument, jump)

    def need(self) -> int:
        """Return how many values the operation finds on the stack."""
        return values_needed(self.opcode, self.effect_argument)


Item = Operation | Label


@cache
def stack_effect(opcode: int, argument: int, jump: bool) -> int:
    """Return `dis.stack_effect`, remembered."""
    return dis.stack_effect(opcode, argument if opcode in HAS_ARG else None, jump=jump)


_ALSO_NEEDED = {
    "LOAD_METHOD": 1,
    "BEFORE_WITH": 1,
    "YIELD_VALUE": 1,
    "CALL_INTRINSIC_1": 1,
    "CALL_INTRINSIC_2": 2,
    "SEND": 2,
}
"""Instructions whose needs the `bytecode` library does not list."""


@cache
def values_needed(opcode: int, argument: int) -> int:
    """Return how many values an operation takes or looks at, which its effect hides when it pushes others."""
    effect = stack_effect(opcode, argument, False)
    if opcode in STATIC_STACK_EFFECTS:
        return -STATIC_STACK_EFFECTS[opcode][0]
    if opcode in DYNAMIC_STACK_EFFECTS:
        return -DYNAMIC_STACK_EFFECTS[opcode](effect, argument, False)[0]
    if dis.opname[opcode] == "PRECALL":  # Its own effect leaves the callable and its NULL to CALL.
        return argument + 2
    return max(-effect, _ALSO_NEEDED.get(dis.opname[opcode], 0))


_ADDRESS_BY_DEPTH = ("COPY", "SWAP")
_ONLY_CONSUME = ("POP_", "STORE_", "DELETE_")
_PUSH_ONLY = ("LOAD_CONST", "LOAD_FAST", "LOAD_CLOSURE", "LOAD_DEREF", "LOAD_GLOBAL", "PUSH_NULL")


def _takes_nothing(opname: str, effect: int) -> bool:
    """Whether an operation uses no value of the stack, so that NULL can be put below what it pushes."""
    return opname in _PUSH_ONLY or (opname.startswith("BUILD_") and effect == 1)


@dataclass(slots=True)
class Slot:
    """One value on the stack during emission."""

    start: int | None = None
    """Index of the operation before which something can still be put below this value; None: it no longer can."""
    is_null: bool = False
    """Whether this is the NULL (or bound method) that a call expects next to its callable."""


@dataclass(slots=True)
class StackTracker:
    """The value stack at the point of emission; None in `slots` where control never arrives."""

    slots: list[Slot] | None = field(default_factory=list)
    at_label: dict[Label, list[bool]] = field(default_factory=dict)
    """Which slots are NULL where control arrives at a label."""

    def known_slots(self, wanted_for: str) -> list[Slot]:
        """Return the slots.

        Raises:
            AssemblyError: Control does not arrive here, so that nothing is known.
        """
        if self.slots is None:
            raise AssemblyError(
                f"{wanted_for}: the stack is not known here, because nothing emitted so far leads here. "
                "Place a label that was jumped to, or give its stack depth: label(..., depth=n)."
            )
        return self.slots

    def apply(self, operation: Operation, position: int) -> None:
        """Follow an operation emitted at `position`."""
        if self.slots is None:
            return
        addressed = operation.effect_argument if operation.opname in _ADDRESS_BY_DEPTH else 0
        self.reach(addressed)
        if operation.need() > len(self.slots):
            raise AssemblyError(f"{operation!r} takes {operation.need()} values from a stack of {len(self.slots)}")
        effect = operation.effect(jump=False)
        if effect < 0:
            del self.slots[effect:]
        else:
            start = position if _takes_nothing(operation.opname, effect) else None
            self.slots.extend(Slot(start) for _ in range(effect))
        if self.slots and not operation.opname.startswith(_ONLY_CONSUME):
            self.slots[-1].is_null = False

    def reach(self, distance: int) -> None:
        """Note that an operation addresses the value `distance` below the top: nothing may be put in between later."""
        slots = self.slots or []
        for slot in slots[len(slots) - min(distance, len(slots)) :]:
            slot.start = None

    def barrier(self) -> None:
        """Note that nothing may be put below any present value later, as other paths pass here."""
        self.reach(len(self.slots or []))

    def insert_null(self, index: int, position: int) -> None:
        """Note that NULL was put at slot `index` by an operation inserted at `position`."""
        slots = self.known_slots("call")
        for slot in slots[index:]:
            if slot.start is not None:
                slot.start += 1
        slots.insert(index, Slot(position, is_null=True))

    def jump_to(self, label: Label, effect: int) -> None:
        """Note a jump to `label` that changes the depth by `effect` on its way."""
        self.barrier()
        if self.slots is None:
            return
        kept = [slot.is_null for slot in self.slots]
        arriving = kept + [False] * effect if effect >= 0 else kept[:effect]
        self._merge(label, arriving)

    def expect_handler(self, label: Label, kept: int, pushed: int) -> None:
        """Note that `label` is reached with the lowest `kept` values of the stack, and `pushed` more."""
        present = [slot.is_null for slot in self.slots or []][:kept]
        self._merge(label, present + [False] * (kept - len(present) + pushed))
        self.barrier()

    def arrive(self, label: Label, depth: int | None) -> None:
        """Note that `label` is placed here."""
        if self.slots is not None:
            self._merge(label, [slot.is_null for slot in self.slots])
        elif depth is not None:
            self.at_label.setdefault(label, [False] * depth)
        nulls = self.at_label.get(label)
        if depth is not None and nulls is not None and len(nulls) != depth:
            raise AssemblyError(f"{label!r} was said to have stack depth {depth}, but is reached with {len(nulls)}")
        self.slots = None if nulls is None else [Slot(None, is_null) for is_null in nulls]

    def _merge(self, label: Label, nulls: list[bool]) -> None:
        known = self.at_label.setdefault(label, nulls)
        if known != nulls:
            raise AssemblyError(
                f"{label!r} is reached with stacks that differ: {len(known)} and {len(nulls)} values "
                f"(NULL at {[i for i, null in enumerate(known) if null]} and "
                f"{[i for i, null in enumerate(nulls) if null]})"
            )


@dataclass(slots=True)
class StackMeasure:
    """Result of `measure_stack`."""

    size: int
    """Most values on the stack at any time."""
    before: list[int | None]
    """Depth before each item; None where control never arrives."""
    region_depths: dict[int, int]
    """Depth kept by each region, by `id` of the region."""


def measure_stack(items: Sequence[Item], *, is_generator: bool) -> StackMeasure:
    """Walk all paths through the operations.

    Raises:
        AssemblyError: The stack underflows, an operation is reached with two depths, control runs past the end, or a
            label was never placed.
    """
    positions = {item: index for index, item in enumerate(items) if isinstance(item, Label)}
    measure = StackMeasure(0, [None] * len(items), {})
    pending = [(0, 1 if is_generator and GENERATOR_STARTS_WITH_VALUE else 0)]
    while pending:
        index, depth = pending.pop()
        if index >= len(items):
            raise AssemblyError("control runs past the end of the code: the last operation must return, raise or jump")
        seen = measure.before[index]
        if seen is not None:
            if seen != depth:
                raise AssemblyError(f"item {index}, {items[index]!r}, is reached with stack depths {seen} and {depth}")
            continue
        measure.before[index] = depth
        measure.size = max(measure.size, depth)
        item = items[index]
        if isinstance(item, Label):
            pending.append((index + 1, depth))
            continue
        if item.need() > depth:
            raise AssemblyError(f"item {index}, {item!r}, takes {item.need()} values from a stack of {depth}")
        for label, after in _edges(item, depth, measure.region_depths):
            measure.size = max(measure.size, after)
            pending.append((index + 1 if label is None else _position(positions, label), after))
    return measure


def _edges(operation: Operation, depth: int, region_depths: dict[int, int]) -> list[tuple[Label | None, int]]:
    """Return where control may go and with which depth; None for the next item."""
    edges: list[tuple[Label | None, int]] = []
    if operation.opcode not in NO_FALL_THROUGH:
        edges.append((None, depth + operation.effect(jump=False)))
    if operation.label is not None:
        edges.append((operation.label, depth + operation.effect(jump=True)))
    region = operation.region
    if region is not None:
        kept = region.depth if region.depth is not None else region_depths.get(id(region), depth)
        if kept > depth:
            raise AssemblyError(f"{operation!r} has {depth} values on the stack, its handler expects {kept}")
        region_depths[id(region)] = kept
        edges.append((region.handler, kept + region.lasti + 1))
    return edges


def _position(positions: dict[Label, int], label: Label) -> int:
    try:
        return positions[label]
    except KeyError:
        raise AssemblyError(f"{label!r} is used but was never placed: call label() with it") from None
