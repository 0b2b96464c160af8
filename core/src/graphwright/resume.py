"""Resume functions: code that goes on in the middle of a function, with its stack and variables as arguments.

A resume function is made from the original code, for one instruction, one pattern of the stack and one set of bound
variables, once; it is an ordinary function, captured in its turn. One made from a resume function goes back to the
original, so that a program that comes by the same place twice meets the same code.
"""

from __future__ import annotations

import inspect
import weakref
from dataclasses import dataclass
from types import CodeType

from graphwright.bytecode import CodeBuilder, DecodedCode, decode
from graphwright.weak_identity import WeakIdentityMap

STACK_ARGUMENT = "__stack_{}"


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where a resume function starts, and what it is given.

    Attributes:
        index: the instruction of the original code.
        nulls: for each value of the stack, whether it is the NULL of a call being built.
        names: the bound local variables that may still be read, in order.
        cells: the frame's own cells that may still be used, in order.
    """

    index: int
    nulls: tuple[bool, ...]
    names: tuple[str, ...]
    cells: tuple[str, ...]

    def stack_arguments(self) -> list[str]:
        """Names of the arguments that carry the stack."""
        return [STACK_ARGUMENT.format(i) for i, null in enumerate(self.nulls) if not null]

    def arguments(self) -> tuple[str, ...]:
        """All argument names, in order."""
        return (*self.stack_arguments(), *self.names, *self.cells)


@dataclass(frozen=True, slots=True)
class Origin:
    """What a resume function was made from."""

    code: weakref.ref[CodeType]
    name: str
    """What events call the resume function. Its code has the name of the original: tracebacks show that."""
    index_of: dict[int, int]
    """Instructions of the resume function to those of the original."""


class ResumeFunctions:
    """The resume functions made so far; each lives as long as its original code."""

    def __init__(self) -> None:
        self._made: WeakIdentityMap[CodeType, dict[ResumePoint, CodeType]] = WeakIdentityMap()
        self._origins: WeakIdentityMap[CodeType, Origin] = WeakIdentityMap()

    def __contains__(self, code: CodeType) -> bool:
        """Whether code is that of a resume function."""
        return self._origins.get(code) is not None

    def original_of(self, code: CodeType) -> CodeType:
        """The code that a resume function goes on in; any other code itself."""
        origin = self._origins.get(code)
        original = origin.code() if origin is not None else None
        return code if original is None else original

    def name_of(self, code: CodeType) -> str:
        """What events call a function: one that resumes says so, and where."""
        origin = self._origins.get(code)
        return code.co_qualname if origin is None else origin.name

    def made_from(self, code: CodeType) -> list[CodeType]:
        """The resume functions of an original code."""
        return list((self._made.get(code) or {}).values())

    def code_for(self, code: CodeType, point: ResumePoint) -> CodeType:
        """The code that resumes `code` at `point`."""
        origin = self._origins.get(code)
        original = origin.code() if origin is not None else None
        if origin is not None and original is not None and point.index in origin.index_of:
            point = ResumePoint(origin.index_of[point.index], point.nulls, point.names, point.cells)
            code = original
        made = self._made.setdefault(code, {})
        found = made.get(point)
        if found is None:
            fresh = _make(code, point)
            self._origins.setdefault(fresh, _origin(code, point, fresh))
            found = made.setdefault(point, fresh)
        return found


RESUME_FUNCTIONS = ResumeFunctions()
"""The resume functions of the process."""


def _make(code: CodeType, point: ResumePoint) -> CodeType:
    decoded = decode(code)
    builder = CodeBuilder(
        name=code.co_name,
        qualname=code.co_qualname,
        filename=code.co_filename,
        firstlineno=code.co_firstlineno,
        arguments=_in_order(code, point),
        freevars=code.co_freevars,
        flags=inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS,
        cell_arguments=point.cells,
        cellvars=tuple(c for c in code.co_cellvars if c not in point.cells),
    )
    for i, null in enumerate(point.nulls):
        if null:
            builder.push_null()
        else:
            builder.load_fast(STACK_ARGUMENT.format(i))
    for name in point.stack_arguments():  # locals() is to show the user's variables alone
        builder.delete_fast(name)
    entry = builder.new_label()
    builder.jump(entry)
    builder.splice(decoded, {point.index: entry})
    return builder.assemble()


def _in_order(code: CodeType, point: ResumePoint) -> tuple[str, ...]:
    """The arguments, that of the function which `super()` takes for `self` before the others."""
    first = code.co_varnames[:1]
    arguments = point.arguments()
    return (*first, *(n for n in arguments if n not in first)) if first and first[0] in arguments else arguments


def _origin(code: CodeType, point: ResumePoint, made: CodeType) -> Origin:
    """Match the instructions of a resume function to those of the original: they come in the same order, at its end."""
    decoded = decode(code)
    rest = decode(made).instructions
    reachable = sorted(decoded.reachable_from(point.index))
    tail = rest[len(rest) - len(reachable) :]
    same = len(tail) == len(reachable) and all(
        t.opname.replace("BACKWARD", "FORWARD") == decoded.instructions[i].opname.replace("BACKWARD", "FORWARD")
        for t, i in zip(tail, reachable, strict=True)
    )
    pairs = {t.index: i for t, i in zip(tail, reachable, strict=True)} if same else {}
    line = decoded.instructions[point.index].line or code.co_firstlineno
    return Origin(weakref.ref(code), f"resume_in_{code.co_name}_at_{line}", pairs)


def eager_stretch(decoded: DecodedCode, broken: int) -> tuple[set[int], list[int]]:
    """What runs in eager after a graph break, and where capture goes on.

    One instruction, or the whole loop that it is in: going on inside a loop would nest one resume function in another
    at each turn.

    Returns:
        The instructions that run in eager, and the indices where control leaves them; handlers are not among them.
    """
    after = _reachable_normally(decoded, decoded.successors(broken))
    stretch = {broken}
    if broken in after:
        stretch |= {i for i in after if broken in _reachable_normally(decoded, decoded.successors(i))}
    exits = {s for i in stretch for s in decoded.successors(i) if s not in stretch}
    return stretch, sorted(exits)


def _reachable_normally(decoded: DecodedCode, starts: list[int] | tuple[int, ...]) -> set[int]:
    found: set[int] = set()
    pending = list(starts)
    while pending:
        index = pending.pop()
        if index not in found:
            found.add(index)
            pending.extend(decoded.successors(index))
    return found
