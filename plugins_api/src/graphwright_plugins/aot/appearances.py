"""What a graph looks like to AOTAutograd, told from its nodes without running it.

Capture notes on each node what it gives. Where a graph has no such notes, the names of what it calls have to do.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins.graphs.facts import tensors_in
from graphwright_plugins.graphs.layouts import overlaps_itself
from graphwright_plugins.graphs.values import node_value

_LAYOUTS_TAKEN: Final = (torch.strided, torch.jagged)
_MAKE_OTHER_LAYOUTS: Final = ("to_sparse", "sparse_", "to_mkldnn")
_RECURRENT: Final = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
_OVERLAPPING_VIEWS: Final = ("expand", "broadcast", "unfold", "as_strided")
_SEVERAL_VIEWS: Final = ("split", "chunk", "unbind")
_WRITING_OPERATORS: Final = frozenset(
    {
        operator.setitem, operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv,
        operator.imod, operator.ipow, operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift,
        operator.imatmul,
    }
)  # fmt: skip


class Appearance:
    """A graph as it looks.

    Args:
        graph: The graph; it is not changed.
        example_inputs: Its inputs, on fakes.
    """

    def __init__(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
        self._inputs = dict(zip(graph.graph.find_nodes(op="placeholder"), example_inputs, strict=True))
        self._calls = tuple(_calls_of(graph))

    def other_layout(self) -> str | None:
        """Where the graph has a tensor that is not strided, in words, or None."""
        for node, value in self._inputs.items():
            for layout in _other_layouts(value):
                return f"its input {node.name} has the layout {layout}"
        for node in self._calls:
            value = node_value(node)
            for layout in _other_layouts(value):
                return f"{node.name} gives a tensor with the layout {layout}"
            if value is None and name_of(node).startswith(_MAKE_OTHER_LAYOUTS):
                return f"{node.name} works with a layout that is not torch.strided"
        return None

    def recurrent_dropout(self) -> fx.Node | None:
        """A recurrent layer that drops some of its results at random."""
        return next((node for node in self._calls if name_of(node) in _RECURRENT and _drops(node)), None)

    def may_write_at_all(self) -> bool:
        """Whether a node may write to memory."""
        return any(map(may_write, self._calls))

    def may_write_where_elements_overlap(self) -> bool:
        """Whether a node may write to a tensor with several elements in one place."""
        arguments = [argument for node in self._calls if may_write(node) for argument in node.all_input_nodes]
        values = [self._value(argument) for argument in arguments]
        if any(overlaps_itself(tensor) for tensor in tensors_in(values)):
            return True
        unknown = any(value is None for value in values)
        return unknown and any(view in name_of(node) for node in self._calls for view in _OVERLAPPING_VIEWS)

    def may_detach_and_write(self) -> bool:
        """Whether the graph takes tensors out of the graph of gradients, and may write to memory."""
        detaches = any("detach" in name_of(node) or "data" in node.args for node in self._calls)
        return detaches and self.may_write_at_all()

    def may_divide_and_write(self) -> bool:
        """Whether the graph makes several views of a tensor at once, and may write to memory."""
        divides = any(view in name_of(node) for node in self._calls for view in _SEVERAL_VIEWS)
        return divides and self.may_write_at_all()

    def may_restride_and_write(self) -> bool:
        """Whether the graph calls `as_strided`, and may write to memory."""
        return any("as_strided" in name_of(node) for node in self._calls) and self.may_write_at_all()

    def _value(self, node: fx.Node) -> Any:
        if node in self._inputs:
            return self._inputs[node]
        if node.op == "get_attr":
            return operator.attrgetter(str(node.target))(node.graph.owning_module)
        return node_value(node)


def name_of(node: fx.Node) -> str:
    """What a node calls, without the place that it is in."""
    return getattr(node.target, "__name__", str(node.target))


def may_write(node: fx.Node) -> bool:
    """Whether a node may write to an argument; many that do not are taken for such."""
    name, schema = name_of(node), getattr(node.target, "_schema", None)
    return (
        (name.endswith("_") and not name.endswith("__"))
        or node.target in _WRITING_OPERATORS
        or "out" in node.kwargs
        or _is_in_place(node)
        or (schema is not None and schema.is_mutable)
    )


def _is_in_place(node: fx.Node) -> bool:
    """Whether a call of a Python function, as those of `torch.nn.functional` are, is given `inplace`."""
    code = getattr(node.target, "__code__", None)
    parameters = code.co_varnames[: code.co_argcount] if code is not None else ()
    place = parameters.index("inplace") if "inplace" in parameters else len(node.args)
    return bool(_argument(node, place, "inplace"))  # a node, where it varies, counts as given


def _calls_of(graph: fx.GraphModule) -> Iterator[fx.Node]:
    """The nodes that call something, those of the bodies of higher-order operators included."""
    for module in graph.modules():
        if isinstance(module, fx.GraphModule):
            yield from (node for node in module.graph.nodes if node.op.startswith("call_"))


def _other_layouts(value: Any) -> Iterator[torch.layout]:
    return (tensor.layout for tensor in tensors_in(value) if tensor.layout not in _LAYOUTS_TAKEN)


def _drops(node: fx.Node) -> bool:
    """Whether a call of `torch.lstm`, `gru`, `rnn_tanh` or `rnn_relu` draws random numbers."""
    packed = "batch_sizes" in node.kwargs or (len(node.args) > 3 and not isinstance(node.args[3], bool))
    first = 5 if packed else 4
    layers, dropout, train = (
        _argument(node, place, name) for place, name in enumerate(("num_layers", "dropout", "train"), first)
    )
    return train is not False and layers != 1 and dropout != 0.0  # a number that varies is none of these


def _argument(node: fx.Node, place: int, name: str) -> object:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name)
