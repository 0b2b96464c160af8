"""Operations to a code object, through the `bytecode` library."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType

from bytecode import Bytecode, CompilerFlags, Instr
from bytecode.instr import TryBegin, TryEnd

from graphwright.bytecode.operands import Constant
from graphwright.bytecode.stack import Item, Label, Region, StackMeasure, measure_stack

GENERATOR_FLAGS = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR

_LibraryItem = Instr | Label | TryBegin | TryEnd


@dataclass(slots=True, frozen=True)
class CodeHeader:
    """Everything about a code object but its instructions."""

    name: str
    qualname: str
    filename: str
    firstlineno: int
    arguments: tuple[str, ...]
    freevars: tuple[str, ...]
    cellvars: tuple[str, ...]
    flags: int


def encode(header: CodeHeader, items: Sequence[Item]) -> CodeType:
    """Assemble operations.

    Raises:
        AssemblyError: The operations can't run; see `measure_stack`.
    """
    measure = measure_stack(items, is_generator=bool(header.flags & GENERATOR_FLAGS))
    assembly = Bytecode()
    assembly.name = header.name
    assembly.qualname = header.qualname
    assembly.filename = header.filename
    assembly.first_lineno = header.firstlineno
    assembly.argcount = len(header.arguments)
    assembly.argnames = list(header.arguments)
    assembly.freevars = list(header.freevars)
    assembly.cellvars = list(header.cellvars)
    assembly.flags = CompilerFlags(header.flags)
    # Makes None the first constant, which a function would otherwise take for its docstring when it is a string.
    assembly.docstring = None
    assembly.extend(_library_items(items, measure))
    # Depths are measured above: the library's own way goes through its control-flow graph, which takes
    # most of the time and guesses the depth of a handler from the shallowest point of its region.
    concrete = assembly.to_concrete_bytecode(compute_exception_stack_depths=False)
    concrete.consts = [item.value if isinstance(item, Constant) else item for item in concrete.consts]
    return concrete.to_code(stacksize=max(measure.size, 1), compute_exception_stack_depths=False)


def _library_items(items: Sequence[Item], measure: StackMeasure) -> Iterator[_LibraryItem]:
    """Yield the operations for the library, with the borders of exception regions in between."""
    constants: dict[int, Constant] = {}
    current: Region | None = None
    begin: TryBegin | None = None
    for item, depth in zip(items, measure.before, strict=True):
        if isinstance(item, Label):
            yield item
            continue
        region = item.region if depth is not None else None
        if region is not current:
            if begin is not None:
                yield TryEnd(begin)
            current, begin = region, None
            if region is not None:
                begin = TryBegin(region.handler, region.lasti, measure.region_depths[id(region)])
                yield begin
        argument = item.argument
        if isinstance(argument, Constant):
            argument = constants.setdefault(id(argument.value), argument)
        if argument is None:
            yield Instr(item.opname, location=item.location)
        else:
            yield Instr(item.opname, argument, location=item.location)
    if begin is not None:
        yield TryEnd(begin)


def interning_replaces(value: object) -> bool:
    """Whether CPython would put another object in place of a constant, or change it, when making a code object.

    It interns strings that look like names, also inside tuples (which it changes in place) and frozensets (which it
    copies). Source: CPython, `Objects/codeobject.c`, `intern_string_constants`.
    """
    if type(value) is str:
        looks_like_name = value.isascii() and value.replace("_", "a").isalnum()
        return looks_like_name and sys.intern(value) is not value
    if type(value) is tuple or type(value) is frozenset:
        return any(map(interning_replaces, value))
    return False
