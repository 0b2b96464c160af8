"""Which sizes and numbers become symbols."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import torch

from graphwright.dim_marks import (
    DimRange,
    dim_ranges,
    dynamic_dims,
    maybe_dynamic_dims,
    static_dims,
    unbacked_dims,
)
from graphwright.shapes.seen import SeenShapes
from graphwright.sources import Source

_LEAST_TOO_LARGE = 2**62
"""Ints from here on are constants: guards and graphs compute in 64 bits, and a sum of two has to have room there."""


class DimKind(enum.Enum):
    """What a dimension is to a capture."""

    STATIC = "static"
    DYNAMIC = "dynamic"
    UNBACKED = "unbacked"


@dataclass(frozen=True)
class TensorPlan:
    """What each dimension of a tensor is to be.

    Attributes:
        kinds: one for each dimension.
        required: dimensions that the program marked: it is an error to fix them.
        ranges: the ranges that came with marks.
    """

    kinds: tuple[DimKind, ...]
    required: frozenset[int] = frozenset()
    ranges: dict[int, DimRange] = field(default_factory=dict)

    @property
    def is_static(self) -> bool:
        """Whether nothing varies."""
        return all(kind is DimKind.STATIC for kind in self.kinds)


class ShapePolicy:
    """Decides for one capture.

    Args:
        dynamic: what the user asked `compile` for: True for symbols wherever possible, False for none unless marked,
            None for what has varied.
        automatic: whether what has varied becomes a symbol at all (`automatic_dynamic_shapes`).
        seen: what earlier captures of the same code met.
        resumes: whether the frame goes on after a graph break: a float that it is given was made by the break, as a
            rule, and is another each time.
        captures_values: whether numbers made from tensors become symbols (`capture_scalar_outputs`).
        captures_sizes: whether sizes that depend on values do (`capture_dynamic_output_shape_ops`).
    """

    def __init__(
        self,
        dynamic: bool | None = None,
        automatic: bool = True,
        seen: SeenShapes | None = None,
        *,
        resumes: bool = False,
        captures_values: bool = False,
        captures_sizes: bool = False,
    ) -> None:
        self._resumes = resumes
        self.captures_values = captures_values
        self.captures_sizes = captures_sizes
        self._dynamic = dynamic
        self._automatic = automatic and dynamic is None
        self._seen = seen or SeenShapes()

    def plan(self, source: Source, tensor: torch.Tensor) -> TensorPlan:
        """What the dimensions of a tensor from outside are to be."""
        sizes = tuple(tensor.shape)
        varying = self._seen.varying_dims(str(source), sizes) if self._automatic and sizes else frozenset()
        if not varying and not self._dynamic and not tensor.__dict__:
            return TensorPlan((DimKind.STATIC,) * len(sizes))
        required = dynamic_dims(tensor)
        if isinstance(tensor, torch.nn.Parameter):  # weights keep their sizes
            varying = frozenset()
        elif self._dynamic:
            varying = frozenset(range(len(sizes)))
        varying = (varying | maybe_dynamic_dims(tensor)) - static_dims(tensor) | required
        unbacked = unbacked_dims(tensor)
        kinds = tuple(_kind(dim, varying, unbacked) for dim in range(len(sizes)))
        return TensorPlan(kinds, required, dim_ranges(tensor))

    def number_varies(self, source: Source, value: float) -> bool:
        """Whether a number from outside is to be a symbol.

        0 and 1 are only where the number has been another: too much depends on them, flags among others.
        """
        if type(value) is int and abs(value) >= _LEAST_TOO_LARGE:
            return False
        if type(value) is float and self._seen.floats_are_fixed:
            return False
        if self._automatic:
            made_by_break = self._resumes and type(value) is float and source.accessor == "local"
            return self._seen.varies(str(source), value) or made_by_break
        return bool(self._dynamic) and value not in (0, 1) and _is_argument(source)


def _kind(dim: int, varying: frozenset[int], unbacked: frozenset[int]) -> DimKind:
    if dim in unbacked:
        return DimKind.UNBACKED
    return DimKind.DYNAMIC if dim in varying else DimKind.STATIC


def _is_argument(source: Source) -> bool:
    """Whether a value is an argument of the frame, or an item of one: no setting of an object or module."""
    steps = [step.accessor for step in source.path()]
    return steps[0] == "local" and all(step in ("index", "dict_item", "item") for step in steps[1:])
