"""Nested tuples, lists and dicts of tensors and literals, as they go into functions that are traced as bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx

import graphwright.graph_breaks as gb
from graphwright.variables.base import Tx, VariableTracker
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.dict import DictVariable
from graphwright.variables.sequence import ListVariable, TupleVariable
from graphwright.variables.tensor import TensorVariable

_LITERALS = frozenset({int, float, complex, bool, str, type(None), torch.dtype, torch.device})


def structure_of(tx: Tx, variable: VariableTracker, what: str) -> Any:
    """A variable as nested exact tuples, lists and dicts of nodes and literals.

    Raises:
        GraphBreak: GW0020: something else is in it.
    """
    variable = variable.realize()
    if type(variable) is TensorVariable and (not variable.attributes or variable.source is not None):
        return variable.node
    if isinstance(variable, TupleVariable) and variable.cls is tuple:
        return tuple(structure_of(tx, item, what) for item in variable.items)
    if isinstance(variable, ListVariable) and variable.python_type() is list:
        return [structure_of(tx, item, what) for item in variable.items]
    if isinstance(variable, DictVariable) and variable.python_type() is dict:
        return _dict_structure(tx, variable, what)
    if not variable.varies and variable.is_python_constant() and variable.python_type() in _LITERALS:
        return variable.as_python_constant()
    tx.graph_break(gb.HIGHER_ORDER, f"{what} with a {variable.type_name()}")


def _dict_structure(tx: Tx, variable: DictVariable, what: str) -> dict[str, Any]:
    found = {}
    for entry in variable.all_entries(tx):
        key = entry.key.realize()
        if not key.is_python_constant() or type(key.as_python_constant()) is not str:
            tx.graph_break(gb.HIGHER_ORDER, f"{what} with a dict whose keys are not strings")
        found[key.as_python_constant()] = structure_of(tx, entry.value, what)
    return found


def map_structure(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """A structure with each leaf replaced; made of exact tuples, lists and dicts, which fx has its own classes for."""
    if isinstance(value, tuple):
        return tuple(map_structure(item, leaf) for item in value)
    if isinstance(value, list):
        return [map_structure(item, leaf) for item in value]
    if isinstance(value, dict):
        return {key: map_structure(item, leaf) for key, item in value.items()}
    return leaf(value)


def leaves_of(value: Any) -> Iterator[Any]:
    """The leaves of a structure, in order."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves_of(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves_of(item)
    else:
        yield value


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors of a structure, in order."""
    return [leaf for leaf in leaves_of(value) if isinstance(leaf, torch.Tensor)]


def nodes_of(structure: Any) -> tuple[fx.Node, ...]:
    """The nodes of a structure, in order."""
    return tuple(leaf for leaf in leaves_of(structure) if isinstance(leaf, fx.Node))


def fakes_of(structure: Any) -> Any:
    """A structure with each node replaced by its fake value."""
    return map_structure(structure, lambda leaf: leaf.meta["example_value"] if isinstance(leaf, fx.Node) else leaf)


def variables_of(tx: Tx, value: Any, of_tensor: Callable[[torch.Tensor], VariableTracker]) -> VariableTracker:
    """New variables for a structure of fake tensors and literals."""
    kind = type(value)
    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if kind is tuple:
        return TupleVariable([variables_of(tx, item, of_tensor) for item in value])
    if kind is list:
        return ListVariable([variables_of(tx, item, of_tensor) for item in value])
    if kind is dict:
        made = DictVariable.new()
        for key, item in value.items():
            made.store(tx, ConstantVariable(key), variables_of(tx, item, of_tensor))
        return made
    return tx.wrap(value)
