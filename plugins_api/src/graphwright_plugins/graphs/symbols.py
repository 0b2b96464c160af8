"""Symbolic sizes in public terms: their text, the symbols in them, and the range they lie in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from graphwright_plugins.torch_compat import assumptions_of, expression_of, number_range, shape_env_of

SYMBOLIC_TYPES = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass(frozen=True)
class SymbolicNumber:
    """A number that is known when the graph is called."""

    expression: str
    """The number in terms of symbols: `"s0"`, `"2*s0 + 1"`."""
    symbols: tuple[str, ...]
    """The symbols in it, by name."""
    least: int | float | None = None
    """The least value it may have; None where that is not known."""
    most: int | float | None = None
    """The greatest value it may have; None where there is no limit."""


Number: TypeAlias = int | float | bool | SymbolicNumber
"""A number that is fixed, or one that varies."""


def is_symbolic(value: object) -> bool:
    """Whether a number is symbolic: known only when the graph is called."""
    return isinstance(value, SYMBOLIC_TYPES)


def described(value: Number | torch.SymInt | torch.SymFloat | torch.SymBool) -> Number:
    """A number in public terms; what is symbolic by type and yet fixed comes out as plain number."""
    if not isinstance(value, SYMBOLIC_TYPES):
        return value
    expr = expression_of(value)
    symbols = tuple(sorted(map(str, getattr(expr, "free_symbols", ()))))
    if not symbols:
        return int(expr) if isinstance(value, torch.SymInt) else float(expr) if _is_float(value) else bool(expr)
    least, most = number_range(value)
    return SymbolicNumber(str(expr), symbols, least, most)


def _is_float(value: object) -> bool:
    return isinstance(value, torch.SymFloat)


class SymbolNames:
    """Names symbols by the order in which they come up, so that equal structures have equal texts."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._ranges: list[str] = []
        self._env: Any = None

    def text(self, value: Any) -> str:
        """A symbolic number with the symbols renamed."""
        expr = expression_of(value)
        self._env = self._env or shape_env_of(value)
        return self._renamed(expr, self._env)

    def _renamed(self, expr: Any, env: Any) -> str:
        symbols = sorted(expr.free_symbols, key=str)
        for symbol in symbols:
            if str(symbol) not in self._names:
                self._names[str(symbol)] = f"n{len(self._names)}"
                self._ranges.append(str(None if env is None else env.var_to_range.get(symbol)))
        # Sorting of terms goes by name, so the new names are put in before the text is made.
        return str(expr.xreplace({s: type(s)(self._names[str(s)], **s.assumptions0) for s in symbols}))

    def assumptions(self) -> list[Any]:
        """The ranges of the symbols that came up, and what was assumed of them alone."""
        if self._env is None:
            return []
        known = set(self._names)
        assumed = [e for e in assumptions_of(self._env) if {str(s) for s in e.free_symbols} <= known]
        return [self._ranges, sorted({self._renamed(e, self._env) for e in assumed})]
