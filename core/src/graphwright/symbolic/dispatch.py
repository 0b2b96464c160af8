"""The table from opcodes to handlers, for the running version of Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import graphwright.graph_breaks as gb
from graphwright.bytecode.versions import OPMAP

if TYPE_CHECKING:
    from graphwright.bytecode import Instruction
    from graphwright.symbolic.translator import Translator

Handler = Callable[["Translator", "Instruction"], None]
Version = tuple[int, int]
_RUNNING: Version = (sys.version_info[0], sys.version_info[1])


class OpcodeTable:
    """Handlers by opcode number, and the reasons why the other opcodes have none."""

    def __init__(self, version: Version, opmap: dict[str, int]) -> None:
        self.version = version
        self.opmap = opmap
        self.handlers: list[Handler | None] = [None] * 256
        self.unsupported: dict[str, str] = {}

    def holds_for(self, since: Version, until: Version | None) -> bool:
        """Whether the running version is in a range; `until` is the first version outside."""
        return since <= self.version and (until is None or self.version < until)

    def register(self, name: str, handler: Handler, since: Version, until: Version | None) -> None:
        """Give an opcode its handler, where the running version is in range.

        Raises:
            ValueError: this Python has no such opcode, or it has a handler already.
        """
        if not self.holds_for(since, until):
            return
        number = self.opmap.get(name)
        if number is None:
            raise ValueError(f"opcode {name!r} is registered for Python {self.version}, which has no such opcode")
        if self.handlers[number] is not None:
            raise ValueError(f"opcode {name!r} has two handlers for Python {self.version}")
        self.handlers[number] = handler

    def refuse(self, name: str, reason: str) -> None:
        """Say why an opcode breaks the graph; names the running version lacks are passed over."""
        if name not in self.opmap:
            return
        self.unsupported[name] = reason

        def break_the_graph(tx: Translator, inst: Instruction) -> None:
            tx.graph_break(gb.UNSUPPORTED_OPCODE, f"{inst.opname}: {reason}")

        self.register(name, break_the_graph, self.version, None)


TABLE = OpcodeTable(_RUNNING, OPMAP)


def opcode(*names: str, since: Version = (3, 11), until: Version | None = None) -> Callable[[Handler], Handler]:
    """Register a function as the handler of one or more opcodes.

    Args:
        names: names in `dis.opmap`.
        since: first version of Python that has them, with this meaning.
        until: first version that has them no more, or with another meaning.
    """

    def register(handler: Handler) -> Handler:
        for name in names:
            TABLE.register(name, handler, since, until)
        return handler

    return register
