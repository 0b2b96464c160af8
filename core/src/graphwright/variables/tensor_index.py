"""Indices of tensors that hold numbers which vary: `torch.select` does not ask for their value, `tensor[i]` does."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import torch

from graphwright.variables.base import Tx, VariableTracker
from graphwright.variables.ranges import SliceVariable
from graphwright.variables.tuple import TupleVariable

if TYPE_CHECKING:
    from graphwright.variables.tensor import TensorVariable


def select_varying(tx: Tx, tensor: TensorVariable, index: VariableTracker) -> VariableTracker | None:
    """`tensor[index]` where some of the index's ints vary; None where none does, or masks and the like are involved."""
    items = [item.realize() for item in index.items] if isinstance(index, TupleVariable) else [index]
    if not any(map(_is_varying_int, items)):
        return None
    dims = _result_dims(tensor.fake.dim(), items)
    if dims is None:
        return None
    whole = SliceVariable(tx.wrap(None), tx.wrap(None), tx.wrap(None))
    rest = [whole if _is_varying_int(item) else item for item in items]
    output = tx.capture.output
    result = output.call_op(tx, "call_function", operator.getitem, [tensor, TupleVariable(rest)])
    for item, dim in reversed(list(zip(items, dims, strict=True))):
        if _is_varying_int(item):
            result = output.call_op(tx, "call_function", torch.select, [result, tx.wrap(dim), item])
    return result


def _is_varying_int(item: VariableTracker) -> bool:
    return item.varies and item.python_type() is int


def _result_dims(rank: int, items: list[VariableTracker]) -> list[int] | None:
    """For each item, the dimension of the result that it starts at; varying ints keep theirs for now."""
    consumed = sum(not _is_constant(item, (type(None), type(Ellipsis))) for item in items)
    dims, position = [], 0
    for item in items:
        dims.append(position)
        if _is_constant(item, (type(Ellipsis),)):
            position += rank - consumed
        elif _is_constant(item, (type(None),)) or isinstance(item, SliceVariable) or _is_varying_int(item):
            position += 1
        elif not _is_constant(item, (int,)):
            return None
    return dims


def _is_constant(item: VariableTracker, kinds: tuple[type, ...]) -> bool:
    return not item.varies and item.is_python_constant() and item.python_type() in kinds
