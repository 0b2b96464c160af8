"""Everything about bytecode that differs between Python versions.

The other modules of this package ask questions here ("does NULL go below the callable?") and never look at
`sys.version_info`. A Python that is not listed is refused at import, because decoding it by the rules of a
neighbour would give wrong code rather than an error.
"""

from __future__ import annotations

import dis
import opcode as _opcode
import sys
from enum import IntEnum
from typing import Final

SUPPORTED_VERSIONS: Final = ((3, 11), (3, 12), (3, 13))
PYTHON_VERSION: Final = (sys.version_info[0], sys.version_info[1])

if PYTHON_VERSION not in SUPPORTED_VERSIONS:
    _known = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED_VERSIONS)
    raise ImportError(
        f"graphwright.bytecode knows the bytecode of Python {_known}, "
        f"found Python {sys.version.split()[0]} at {sys.executable}. "
        "Run it with one of the Python versions listed, or look for a newer graphwright."
    )

PY312: Final = PYTHON_VERSION >= (3, 12)
PY313: Final = PYTHON_VERSION >= (3, 13)

OPMAP: Final[dict[str, int]] = {name: op for name, op in _opcode.opmap.items() if op < 256}
"""Opcode numbers of real instructions: without the compiler's pseudo opcodes."""

OPNAME: Final[list[str]] = list(_opcode.opname[:256])

EXTENDED_ARG: Final = _opcode.EXTENDED_ARG
CACHE: Final = OPMAP["CACHE"]


def _numbers(*names: str) -> frozenset[int]:
    """Return the opcodes of those names that this Python has."""
    return frozenset(OPMAP[name] for name in names if name in OPMAP)


def _cache_counts() -> list[int]:
    """Return, for each opcode, how many CACHE units follow the instruction."""
    table = dis._inline_cache_entries  # type: ignore[attr-defined]  # private: not in typeshed
    if PY313:  # 3.13 keys the table by name, earlier versions by number.
        return [table.get(OPNAME[op], 0) for op in range(256)]
    return list(table[:256])


CACHES: Final[list[int]] = _cache_counts()

HAS_ARG: Final[frozenset[int]] = frozenset(
    op
    for op in OPMAP.values()
    if (op in dis.hasarg if PY312 else op >= dis.HAVE_ARGUMENT)  # type: ignore[attr-defined]  # since 3.12
)


class ArgKind(IntEnum):
    """How the integer argument of an instruction is turned into `Instruction.argval`."""

    NONE = 0
    NUMBER = 1
    LOCAL = 2
    CONST = 3
    NAME = 4
    GLOBAL = 5
    ATTRIBUTE = 6
    SUPER_ATTRIBUTE = 7
    JUMP_FORWARD = 8
    JUMP_BACKWARD = 9
    COMPARE = 10
    FREE = 11
    LOCAL_PAIR = 12
    FORMAT = 13
    CONVERT = 14


LOCAL_PAIRS: Final[dict[int, tuple[str, str]]] = {
    OPMAP[name]: parts
    for name, parts in {
        "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
        "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
        "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
    }.items()
    # Before 3.13 these names exist too, as specialised forms that never appear in `co_code`.
    if PY313 and name in OPMAP
}
"""Instructions that act on two locals, with the two single instructions they stand for."""

JUMPS: Final[frozenset[int]] = frozenset(op for op in {*dis.hasjrel, *dis.hasjabs} if op < 256)
BACKWARD_JUMPS: Final[frozenset[int]] = frozenset(op for op in JUMPS if "BACKWARD" in OPNAME[op])

UNCONDITIONAL_JUMPS: Final[frozenset[int]] = _numbers("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")

NO_FALL_THROUGH: Final[frozenset[int]] = UNCONDITIONAL_JUMPS | _numbers(
    "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT"
)
"""Instructions after which control never reaches the next instruction."""

CALLS: Final[frozenset[int]] = _numbers("CALL", "CALL_KW", "CALL_FUNCTION_EX", "LOAD_SUPER_ATTR")
"""Instructions that run a callable which may look at the locals of this frame (`locals()`, `super()`)."""

FORMAT_CONVERSIONS: Final = (None, str, repr, ascii)
FORMATS: Final = tuple((conversion, has_spec) for has_spec in (False, True) for conversion in FORMAT_CONVERSIONS)
"""What the argument of FORMAT_VALUE means: the conversion, and whether a format specification is on the stack."""


def _arg_kind(op: int) -> ArgKind:
    name = OPNAME[op]
    special = {
        "LOAD_GLOBAL": ArgKind.GLOBAL,
        "LOAD_SUPER_ATTR": ArgKind.SUPER_ATTRIBUTE,
        "FORMAT_VALUE": ArgKind.FORMAT,
        "CONVERT_VALUE": ArgKind.CONVERT,
    }
    if PY312:
        special["LOAD_ATTR"] = ArgKind.ATTRIBUTE
    families = (
        (LOCAL_PAIRS, ArgKind.LOCAL_PAIR),
        (BACKWARD_JUMPS, ArgKind.JUMP_BACKWARD),
        (JUMPS, ArgKind.JUMP_FORWARD),
        (dis.hasconst, ArgKind.CONST),
        (dis.hasname, ArgKind.NAME),
        (dis.haslocal, ArgKind.LOCAL),
        (dis.hasfree, ArgKind.FREE),
        (dis.hascompare, ArgKind.COMPARE),
        (HAS_ARG, ArgKind.NUMBER),
    )
    if name in special:
        return special[name]
    return next((kind for family, kind in families if op in family), ArgKind.NONE)


ARG_KINDS: Final[list[ArgKind]] = [_arg_kind(op) for op in range(256)]


def _arg_shift(op: int) -> int:
    """Return how many low bits of the argument are flags, below the index proper."""
    shifts = {
        ArgKind.GLOBAL: 1,
        ArgKind.ATTRIBUTE: 1,
        ArgKind.SUPER_ATTRIBUTE: 2,
        ArgKind.COMPARE: 5 if PY313 else 4 if PY312 else 0,
    }
    return shifts.get(ARG_KINDS[op], 0)


ARG_SHIFTS: Final[list[int]] = [_arg_shift(op) for op in range(256)]

COMPARE_TO_BOOL: Final = 16 if PY313 else 0
"""Bit of the argument of COMPARE_OP that asks for a `bool` result."""

COMPARISONS: Final[tuple[str, ...]] = tuple(dis.cmp_op)
_named_operators: list[tuple[str, str]] = _opcode._nb_ops  # type: ignore[attr-defined]  # private: not in typeshed
BINARY_OPERATORS: Final[tuple[str, ...]] = tuple(symbol for _, symbol in _named_operators)
"""Symbols of BINARY_OP by its argument: `+`, `&`, …, `+=`, …"""

NULL_BELOW_CALLABLE: Final = not PY313
"""Where a plain call expects its NULL: below the callable, or between it and the arguments."""

METHOD_LOAD_IS_ATTR: Final = PY312
"""LOAD_METHOD became LOAD_ATTR with its low bit set."""

CALL_NEEDS_PRECALL: Final = not PY312
KEYWORD_NAMES_BY_CONST: Final = PY313
"""CALL_KW takes the keyword names from the stack; before, KW_NAMES announces them to CALL."""

CONDITIONS_NEED_BOOL: Final = PY313
"""POP_JUMP_IF_TRUE/FALSE and UNARY_NOT take exactly a `bool`, so TO_BOOL must come first."""

LOCAL_OPCODES_REACH_CELLS: Final = PY313
"""LOAD_FAST and its like may name the slot of a cell; LOAD_CLOSURE is gone, being LOAD_FAST of that slot."""

FUNCTION_ATTRIBUTES_SET_APART: Final = PY313
"""MAKE_FUNCTION takes only the code; SET_FUNCTION_ATTRIBUTE adds closure and defaults."""

HAS_BACKWARD_CONDITIONS: Final = not PY312
"""POP_JUMP_BACKWARD_IF_* exist; later versions jump forward over a JUMP_BACKWARD."""

END_OF_LOOP: Final[tuple[str, ...]] = ("END_FOR", "POP_TOP") if PY313 else ("END_FOR",) if PY312 else ()
"""What must stand at the target of FOR_ITER."""

GENERATOR_STARTS_WITH_VALUE: Final = not PY313
"""A generator's frame starts with one value on its stack (3.13: RETURN_GENERATOR pushes it)."""


def conditional_jump(condition: str, *, backward: bool) -> str:
    """Return the opcode name for "pop and jump if `condition`".

    Args:
        condition: `TRUE`, `FALSE`, `NONE` or `NOT_NONE`.
        backward: Whether the target lies before the jump; only where `HAS_BACKWARD_CONDITIONS`.
    """
    if not HAS_BACKWARD_CONDITIONS:
        return f"POP_JUMP_IF_{condition}"
    return f"POP_JUMP_{'BACKWARD' if backward else 'FORWARD'}_IF_{condition}"
