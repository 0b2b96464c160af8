"""Code objects to instruction lists and back. Knows no torch."""

from __future__ import annotations

from graphwright.bytecode.assemble import CodeBuilder
from graphwright.bytecode.disassemble import decode, variable_names
from graphwright.bytecode.errors import AssemblyError, BytecodeError
from graphwright.bytecode.instruction import DecodedCode, ExceptionRange, Instruction
from graphwright.bytecode.liveness import argument_count, is_live, live_names
from graphwright.bytecode.stack import Label, Region

__all__ = [
    "AssemblyError",
    "BytecodeError",
    "CodeBuilder",
    "DecodedCode",
    "ExceptionRange",
    "Instruction",
    "Label",
    "Region",
    "argument_count",
    "decode",
    "is_live",
    "live_names",
    "variable_names",
]
