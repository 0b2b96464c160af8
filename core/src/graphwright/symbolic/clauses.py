"""Which `except` and `finally` clauses an exception would meet, read off the exception table and the code."""

from __future__ import annotations

from collections.abc import Iterator

from graphwright.bytecode import DecodedCode

_CANNOT_BE_RAISED_BY_TENSORS = frozenset(
    {
        "TypeError",
        "KeyError",
        "AttributeError",
        "ImportError",
        "ModuleNotFoundError",
        "NameError",
        "NotImplementedError",
        "StopIteration",
    }
)
"""Builtin exceptions that no operation raises for the values of its tensors."""


def has_except_clause(decoded: DecodedCode, index: int) -> bool:
    """Whether an `except` clause around an instruction may catch what a tensor operation raises for its values.

    `with` lets it pass. What it changes on its way out it changes back, as a rule, and replacement code has not done
    what it would undo.
    """
    return any(_may_catch(decoded, target) for target in _clauses(decoded, index))


def has_finally_clause(decoded: DecodedCode, index: int) -> bool:
    """Whether a `finally` clause around an instruction runs where it raises, and lets the exception pass."""
    return any(not _end_of(decoded, target)[0] for target in _clauses(decoded, index))


def _clauses(decoded: DecodedCode, index: int) -> Iterator[int]:
    """Where the handlers of `except` and `finally` around an instruction begin, innermost first."""
    instructions = decoded.instructions
    handler = decoded.handler_for(index)
    while handler is not None:
        target = handler.target
        if instructions[target].opname == "PUSH_EXC_INFO" and instructions[target + 1].opname != "WITH_EXCEPT_START":
            yield target
        handler = decoded.handler_for(target)


def _may_catch(decoded: DecodedCode, target: int) -> bool:
    """Whether a handler ends some of those exceptions."""
    ends, names = _end_of(decoded, target)
    return ends and not (names and _CANNOT_BE_RAISED_BY_TENSORS.issuperset(names))


def _end_of(decoded: DecodedCode, target: int) -> tuple[bool, list[str]]:
    """Whether a handler ends exceptions, which one of `finally` does not; and the names of the classes it asks for."""
    instructions = decoded.instructions
    names: list[str] = []
    found: set[int] = set()
    pending = [target]
    ends = False
    while pending:
        index = pending.pop()
        if index in found:
            continue
        found.add(index)
        inst = instructions[index]
        ends = ends or inst.opname == "POP_EXCEPT"
        if inst.opname == "CHECK_EXC_MATCH":
            names.append(str(instructions[index - 1].argval))
        pending.extend(decoded.successors(index))
    return ends, names
