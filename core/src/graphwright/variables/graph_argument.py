"""Variables as arguments of graph nodes."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import fx

import graphwright.graph_breaks as gb
from graphwright.exc import NotProxyable
from graphwright.variables.base import Kwargs, Tx, VariableTracker


@dataclass(frozen=True, eq=False)
class Overriding:
    """Stands for a tensor whose class has its own `__torch_function__`, until that is asked; never in a graph."""

    variable: VariableTracker


_EXACT: frozenset[type] = frozenset(
    {
        int,
        float,
        complex,
        bool,
        str,
        bytes,
        type(None),
        type(Ellipsis),
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
        fx.Node,
        Overriding,
    }
)
"""Types that a node's arguments may hold as they are."""
_DTYPE_OF_CLASS: dict[Any, torch.dtype] = {
    int: torch.int64,
    float: torch.float64,
    bool: torch.bool,
    complex: torch.complex128,
}
"""What torch takes Python's number types for: ``x.to(float)``."""


def graph_argument(variable: VariableTracker) -> Any:
    """The variable as an argument of an fx node: nodes for tensors, plain literals and containers for the rest.

    Raises:
        NotProxyable: it has no place in a graph.
    """
    try:
        return _normal(variable.as_proxy())
    except RecursionError as error:
        raise NotProxyable("a container that holds itself cannot be an argument of a graph node") from error


def is_graph_argument(variable: VariableTracker) -> bool:
    """Whether `graph_argument` will succeed."""
    try:
        graph_argument(variable)
    except NotProxyable:
        return False
    return True


def check_generator(tx: Tx, what: str, kwargs: Kwargs) -> None:
    """Break for an operation that draws from a generator object."""
    generator = kwargs.get("generator")
    if generator is not None and issubclass(generator.realize().python_type(), torch.Generator):
        tx.graph_break(gb.RANDOM_STATE, f"{what} draws from a generator object")


def _normal(value: Any) -> Any:
    if type(value) in _EXACT:
        return value
    for kind, convert in _CONVERSIONS:
        if isinstance(value, kind):
            return convert(value)
    if isinstance(value, type) and value in _DTYPE_OF_CLASS:
        return _DTYPE_OF_CLASS[value]
    raise NotProxyable(f"a {type(value).__name__} cannot be an argument of a graph node")


def _normal_dict(value: dict[Any, Any]) -> dict[str, Any]:
    if not all(type(k) is str for k in value):
        raise NotProxyable("a dict whose keys are not strings cannot be an argument of a graph node")
    return {k: _normal(v) for k, v in value.items()}


def _of_enum(member: Any) -> Any:
    # Torch sees the number or string in an enum member that is also one; another member means nothing to it.
    value = member.value
    if isinstance(member, (int, str, float)):
        return _normal(value)
    raise NotProxyable(f"enum member {member} cannot be an argument of a graph node")


_CONVERSIONS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (tuple, lambda value: tuple(_normal(v) for v in value)),
    (list, lambda value: [_normal(v) for v in value]),
    (range, list),
    (slice, lambda value: slice(_normal(value.start), _normal(value.stop), _normal(value.step))),
    (dict, _normal_dict),
    (enum.Enum, _of_enum),
    (np.generic, lambda value: _normal(value.item())),
    (int, int),
    (float, float),
    (complex, complex),
    (str, lambda value: str.__str__(value)),
)
"""Subclasses and containers, with what torch sees in them."""
