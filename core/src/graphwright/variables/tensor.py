"""Tensors: a node of the graph, a fake value, and the Python object around them."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

import graphwright.graph_breaks as gb
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker
from graphwright.variables.iterator import SequenceIterator
from graphwright.variables.tensor_attributes import delete_attribute, get_attribute, set_attribute
from graphwright.variables.tensor_index import select_varying
from graphwright.variables.tensor_methods import METHOD_RULES, is_torch_method, tensor_value

if TYPE_CHECKING:
    from torch import fx

    from graphwright.sources import Source


class TensorVariable(VariableTracker):
    """A tensor.

    Attributes:
        node: where the graph computes it.
        fake: its metadata; the very object that in-place operations change.
        real: the tensor itself, for one from outside.
        attributes: what the traced program set on the object (None for what it deleted), by name.
    """

    def __init__(
        self, node: fx.Node, fake: torch.Tensor, source: Source | None = None, real: torch.Tensor | None = None
    ) -> None:
        self.node = node
        self.fake = fake
        self.source = source
        self.real = real
        self.attributes: dict[str, VariableTracker | None] = {}

    def python_type(self) -> type:
        return torch.Tensor if self.real is None else type(self.real)

    def as_proxy(self) -> fx.Node:
        return self.node

    # ---------------------------------------------------------- attributes

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        return get_attribute(tx, self, name)

    def setattr(self, tx: Tx, name: str, value: VariableTracker) -> None:
        set_attribute(tx, self, name, value)

    def delattr(self, tx: Tx, name: str) -> None:
        delete_attribute(tx, self, name)

    # ---------------------------------------------------------- calls

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        tx.raise_(TypeError, f"'{self.type_name()}' object is not callable")

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        rule = METHOD_RULES.get(name)
        if rule is not None and hasattr(torch.Tensor, name):
            return rule(tx, self, name, args, kwargs)
        if not is_torch_method(self, name):
            return tx.call(self.getattr(tx, name), args, kwargs)
        return tx.capture.output.call_op(tx, "call_method", name, [self, *args], kwargs)

    # ---------------------------------------------------------- data model

    def getitem(self, tx: Tx, index: VariableTracker) -> VariableTracker:
        """`self[index]`."""
        found = select_varying(tx, self, index)
        if found is not None:
            return found
        return tx.capture.output.call_op(tx, "call_function", operator.getitem, [self, index])

    def setitem(self, tx: Tx, index: VariableTracker, value: VariableTracker) -> None:
        """`self[index] = value`."""
        tx.capture.output.call_op(tx, "call_function", operator.setitem, [self, index, value])

    def iterate(self, tx: Tx) -> VariableTracker:
        return SequenceIterator(self.unpack(tx))

    def unpack(self, tx: Tx) -> list[VariableTracker]:
        if self.fake.dim() == 0:
            tx.raise_(TypeError, "iteration over a 0-d tensor")
        return tx.capture.output.call_op(tx, "call_method", "unbind", [self, tx.wrap(0)]).unpack(tx)

    def length(self, tx: Tx) -> VariableTracker:
        if self.fake.dim() == 0:
            tx.raise_(TypeError, "len() of a 0-d tensor")
        return tx.wrap(self.fake.shape[0])

    def truth(self, tx: Tx) -> bool:
        return bool(tensor_value(tx, self, bool, gb.DATA_DEPENDENT_BRANCH))

    def hash_key(self, tx: Tx) -> Any:
        return self

    # ---------------------------------------------------------- codegen

    def replay(self, emit: Emitter) -> None:
        for name, value in self.attributes.items():
            if value is None:
                emit.load_constant(delattr)
                emit(self)
                emit.load_constant(name)
                emit.op("call", 2)
                emit.op("pop_top")
            else:
                emit(value)
                emit(self)
                emit.op("store_attr", name)

    def __repr__(self) -> str:
        origin = f" from {self.source}" if self.source is not None else ""
        return f"<tensor {self.node.name}: {self.fake.dtype} {tuple(self.fake.shape)}{origin}>"
