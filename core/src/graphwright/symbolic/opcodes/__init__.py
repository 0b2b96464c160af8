"""The handlers of all opcodes, by family. Importing this package fills the opcode table."""

from __future__ import annotations

from graphwright.symbolic.opcodes import (
    arithmetic,
    calls,
    containers,
    exceptions,
    formatting,
    functions,
    generators,
    imports,
    jumps,
    load_store,
    matching,
    unsupported,
    with_blocks,
)

__all__ = [
    "arithmetic",
    "calls",
    "containers",
    "exceptions",
    "formatting",
    "functions",
    "generators",
    "imports",
    "jumps",
    "load_store",
    "matching",
    "unsupported",
    "with_blocks",
]
