"""Which local variables may still be read, before each instruction.

Ordinary backward data flow over normal and exception edges, on bit masks. Cells and free variables count too: any
instruction that names one needs the cell itself, even to store into it, as closures may share it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Final

from graphwright.bytecode.disassemble import variable_names
from graphwright.bytecode.instruction import DecodedCode, Instruction
from graphwright.bytecode.versions import CALLS, LOCAL_PAIRS

_READS_ALL_LOCALS: Final = frozenset({"locals", "vars", "dir", "eval", "exec", "breakpoint"})
"""Builtins that look at all locals of the calling frame. Under another name they are not recognised."""

_READS_OWN_CLASS: Final = "super"
"""`super()` looks at the first argument and at the free variable `__class__`."""


def live_names(decoded: DecodedCode, index: int) -> tuple[str, ...]:
    """Return the variables that may be read when control is about to run instruction `index`.

    Locals, cells and free variables, in the order of the frame's slots. A variable that is certainly stored before
    it is read is not live. Where the code calls `locals()`, `eval()` or their like, all variables are live before
    the call; where it calls `super()`, the first argument and `__class__`.

    Args:
        decoded: The code.
        index: Index of an instruction.
    """
    mask = _live_before(decoded)[index]
    return tuple(name for position, name in enumerate(variable_names(decoded.code)) if mask >> position & 1)


def is_live(decoded: DecodedCode, index: int, name: str) -> bool:
    """Return whether one variable may be read when control is about to run instruction `index`."""
    return name in live_names(decoded, index)


def _live_before(decoded: DecodedCode) -> list[int]:
    if decoded.body.live_before is None:
        decoded.body.live_before = _solve(decoded)
    return decoded.body.live_before


def _solve(decoded: DecodedCode) -> list[int]:
    """Return the mask of live variables before each instruction."""
    effects = _Effects(decoded)
    pairs = [effects.reads_and_kills(instruction) for instruction in decoded.instructions]
    successors = [decoded.successors(index) for index in range(len(decoded))]
    handlers = [
        None if handler is None or instruction.opname in _CANNOT_RAISE else handler.target
        for instruction, handler in zip(decoded.instructions, decoded.body.handlers, strict=True)
    ]
    live = [0] * len(decoded)
    changed = True
    while changed:  # Masks only grow, so this ends; loops need a second or third round.
        changed = False
        for index in range(len(decoded) - 1, -1, -1):
            after = 0
            for successor in successors[index]:
                after |= live[successor]
            reads, kills = pairs[index]
            before = reads | after & ~kills
            handler = handlers[index]
            if handler is not None:
                before |= live[handler]
            if before != live[index]:
                live[index] = before
                changed = True
    return live


_CANNOT_RAISE: Final = frozenset(
    {"STORE_FAST", "STORE_FAST_STORE_FAST", "LOAD_CONST", "POP_TOP", "NOP", "SWAP", "COPY"}
)
"""Without this, the old value of `x` would be live all through `x = f()` in a `try` whose handler reads `x`."""


class _Effects:
    """What instructions of one code object read and overwrite, as masks."""

    def __init__(self, decoded: DecodedCode) -> None:
        names = variable_names(decoded.code)
        self._bit = {name: 1 << position for position, name in enumerate(names)}
        self._all = (1 << len(names)) - 1
        self._arguments = frozenset(decoded.code.co_varnames[: argument_count(decoded.code)])
        self._call_reads = self._read_by_calls(decoded)

    def reads_and_kills(self, instruction: Instruction) -> tuple[int, int]:
        """Return the variables read before, and those overwritten by, an instruction."""
        opname = instruction.opname
        rule = _RULES.get(opname)
        if rule is not None:
            return rule(self, instruction.argval)
        if instruction.opcode in LOCAL_PAIRS:
            return self._pair(instruction)
        if instruction.opcode in CALLS:
            return self._call_reads, 0
        return 0, 0

    def _pair(self, instruction: Instruction) -> tuple[int, int]:
        """Combine the effects of the two instructions that one instruction stands for."""
        reads = kills = 0
        for opname, name in zip(LOCAL_PAIRS[instruction.opcode], instruction.argval, strict=True):
            more_reads, more_kills = _RULES[opname](self, name)
            reads |= more_reads & ~kills
            kills |= more_kills
        return reads, kills

    def _read_by_calls(self, decoded: DecodedCode) -> int:
        """Return the variables that a call may read without naming them."""
        mentioned = {i.argval for i in decoded.instructions if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        if mentioned & _READS_ALL_LOCALS:
            return self._all
        if _READS_OWN_CLASS not in mentioned:
            return 0
        first_argument = decoded.code.co_varnames[0] if self._arguments else ""
        return self._bit.get(first_argument, 0) | self._bit.get("__class__", 0)

    def read(self, name: str) -> tuple[int, int]:
        return self._bit[name], 0

    def kill(self, name: str) -> tuple[int, int]:
        return 0, self._bit[name]

    def read_and_kill(self, name: str) -> tuple[int, int]:
        return self._bit[name], self._bit[name]

    def make_cell(self, name: str) -> tuple[int, int]:
        """The new cell takes over an argument's value; any other variable is unbound where its cell is made."""
        return (self._bit[name] if name in self._arguments else 0), self._bit[name]


_RULES: Final[dict[str, Callable[[_Effects, str], tuple[int, int]]]] = {
    "LOAD_FAST": _Effects.read,
    "LOAD_FAST_CHECK": _Effects.read,
    "LOAD_FAST_AND_CLEAR": _Effects.read_and_kill,
    "STORE_FAST": _Effects.kill,
    "DELETE_FAST": _Effects.read_and_kill,
    "MAKE_CELL": _Effects.make_cell,
    "LOAD_CLOSURE": _Effects.read,
    "LOAD_DEREF": _Effects.read,
    "LOAD_CLASSDEREF": _Effects.read,
    "LOAD_FROM_DICT_OR_DEREF": _Effects.read,
    "STORE_DEREF": _Effects.read,
    "DELETE_DEREF": _Effects.read,
}


def argument_count(code: CodeType) -> int:
    """Return how many of `co_varnames` are arguments, `*args` and `**kwargs` included."""
    variadic = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # CO_VARARGS, CO_VARKEYWORDS
    return code.co_argcount + code.co_kwonlyargcount + variadic
