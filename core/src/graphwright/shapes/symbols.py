"""The symbols of one capture: where each is read from at a call, and what makes it in the graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from graphwright.exc import DynamicSizeFixed
from graphwright.shapes.algebra import Expr
from graphwright.shapes.policy import TensorPlan
from graphwright.sources import Source
from graphwright.torch_compat import (
    FakeTensorMode,
    ShapeEnv,
    SymbolicLayout,
    assumptions_about,
    expression_of,
    new_symbolic_number,
    simplified,
    value_of,
    varies,
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a number is found when the entry is called.

    Attributes:
        kind: ``size``, ``stride`` or ``offset`` of a tensor; ``int`` or ``float``.
        source: the tensor, or the number itself.
        index: the dimension.
    """

    kind: str
    source: Source
    index: int = 0

    def __str__(self) -> str:
        if self.kind in ("int", "float"):
            return str(self.source)
        if self.kind == "offset":
            return f"{self.source}.storage_offset()"
        return f"{self.source}.{self.kind}({self.index})"


@dataclass(frozen=True, slots=True)
class RequiredDim:
    """A dimension that the program marked as dynamic."""

    place: Place
    expr: Expr
    size: int


def _check_range(what: str, size: int, least: int | None, most: int | None) -> None:
    if (least is not None and size < least) or (most is not None and size > most):
        span = f"from {least or 0} on" if most is None else f"from {least or 0} to {most}"
        raise DynamicSizeFixed(
            f"{what} is {size}, but is marked as dynamic {span}. Give the mark a range that holds for every call."
        )


class SymbolTable:
    """Symbols, the places that their values come from, and what the places were found to hold.

    Attributes:
        equations: each number that guards on tensors leave open, with the expression that stands for it.
        required: the dimensions that may not be fixed.
    """

    def __init__(self, shape_env: ShapeEnv) -> None:
        self.shape_env = shape_env
        self.equations: list[tuple[Place, Expr]] = []
        self.required: list[RequiredDim] = []
        self._places: dict[Any, Place] = {}
        self._numbers: dict[Source, torch.SymInt | torch.SymFloat] = {}
        self._assumed_at: list[tuple[range, str]] = []

    def fake_of_tensor(
        self, mode: FakeTensorMode, tensor: torch.Tensor, source: Source, plan: TensorPlan
    ) -> tuple[torch.Tensor, SymbolicLayout]:
        """A fake whose varying sizes are symbols, and what makes more like it; records where the symbols are found."""
        ranges = {dim: (r.min, r.max) for dim, r in plan.ranges.items()}
        for dim, (least, most) in ranges.items():
            _check_range(f"{source}.size({dim})", int(tensor.shape[dim]), least, most)
        layout = SymbolicLayout(tensor, str(source), [kind.value for kind in plan.kinds], ranges)
        fake = layout.fake_of(mode, tensor)
        for dim, (size, stride) in enumerate(zip(fake.shape, fake.stride(), strict=True)):
            place = Place("size", source, dim)
            if varies(size):
                self._equate(place, expression_of(size))
            if dim in plan.required:
                self.required.append(RequiredDim(place, expression_of(size), int(tensor.shape[dim])))
            self._equate(Place("stride", source, dim), expression_of(stride))
        offset = expression_of(fake.storage_offset())
        if getattr(offset, "is_Symbol", False):
            self._places.setdefault(offset, Place("offset", source))
        return fake, layout

    def new_number(self, value: int | float, source: Source) -> torch.SymInt | torch.SymFloat:
        """A symbol for an int or float from outside; one for each source."""
        number = self._numbers.get(source)
        if number is None:
            number = self._numbers[source] = new_symbolic_number(self.shape_env, value, str(source))
            self._equate(Place(type(value).__name__, source), expression_of(number))
        return number

    def number_at(self, source: Source) -> torch.SymInt | torch.SymFloat:
        """The symbolic number that stands for a number from outside."""
        return self._numbers[source]

    def note_assumptions(self, numbers: range, location: str) -> None:
        """Record where the program was when the conditions with these numbers were assumed."""
        self._assumed_at.append((numbers, location))

    def where_assumed(self, number: int) -> str:
        """Where the program was when the condition with this number was assumed; empty if nobody knows."""
        return next((location for numbers, location in self._assumed_at if number in numbers), "")

    def _equate(self, place: Place, expr: Expr) -> None:
        self.equations.append((place, expr))
        if getattr(expr, "is_Symbol", False):
            self._places.setdefault(expr, place)

    def place_of(self, symbol: Any) -> Place | None:
        """Where the value of a symbol is read; None for one that the graph computes."""
        return self._places.get(symbol)

    def varying(self) -> Iterator[tuple[Place, str]]:
        """The sizes and numbers that still vary, each with its symbol's name."""
        for symbol, place in self._places.items():
            if place.kind in ("size", "int", "float") and simplified(self.shape_env, symbol) == symbol:
                yield place, str(symbol)

    def fixed(self) -> Iterator[tuple[Place, int | float, str]]:
        """The sizes and numbers that the program asked for: where they are found, their values, and where it asked."""
        for symbol, place in self._places.items():
            now = simplified(self.shape_env, symbol)
            if place.kind in ("size", "int", "float") and now != symbol and not now.free_symbols:
                yield place, value_of(self.shape_env, symbol), self.why_fixed(symbol)

    def why_fixed(self, symbol: Any) -> str:
        """Where the program was when something was first assumed of a symbol; empty if nobody knows."""
        return next((self.where_assumed(n) for n in assumptions_about(self.shape_env, symbol)), "")

    def bound(self) -> Iterator[tuple[Any, Place]]:
        """The symbols with a place."""
        return iter(self._places.items())
