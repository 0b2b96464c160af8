"""Errors raised while code objects are decoded or assembled."""

from __future__ import annotations


class BytecodeError(ValueError):
    """A code object cannot be decoded, or the instructions given cannot form one."""


class AssemblyError(BytecodeError):
    """Replacement code was emitted in a way that cannot run (stack, labels, regions, names)."""
