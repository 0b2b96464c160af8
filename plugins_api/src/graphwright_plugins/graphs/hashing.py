"""A hash of what a graph computes, the same in every process: the ground on which cached artefacts are found again.

Names of nodes, the order of hash tables, addresses and printed text have no part in it. What cannot be told apart for
certain is refused, so that two different graphs never share a key.
"""

from __future__ import annotations

import enum
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins.errors import PluginError
from graphwright_plugins.torch_compat import FakeTensor, is_operator, is_torch_function, operator_text

from .symbols import SymbolNames, is_symbolic
from .values import node_value

_PLAIN: Final = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_STEADY_ROOTS: Final = frozenset({"torch", "numpy", "graphwright", "graphwright_plugins"}) | sys.stdlib_module_names

Code = Any
"""What JSON can hold."""


class UnstableGraph(PluginError, ValueError):
    """A graph has no hash that another process would find too; the message names the node and what it refers to."""

    def __init__(self, message: str, *, node: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.node = node
        self.reason = reason


def graph_hash(graph: fx.GraphModule, example_inputs: Sequence[Any] | None = None) -> str:
    """Hash a graph with its inputs' metadata.

    Two graphs have the same hash only if they do the same operations, in the same order, on inputs of the same
    dtypes, devices, layouts, sizes and strides, where symbolic sizes count by how they relate, by their ranges and by
    what is assumed of them. Tensors that the graph holds count by their values. Versions of torch, drivers and options
    are not part of it.

    Args:
        graph: The graph, at torch level or of operators.
        example_inputs: A fake tensor, number or symbolic number for each placeholder; by default what capture or
            AOTAutograd noted on the placeholders.

    Returns:
        64 hexadecimal digits.

    Raises:
        UnstableGraph: The graph calls a Python function of the program's, or holds an object, that cannot be
            recognised in another process.
    """
    encoder = _Encoder()
    body = encoder.graph(graph, example_inputs)
    text = json.dumps([body, encoder.names.assumptions()], separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


class _Encoder:
    """Turns graphs into nested lists of strings and numbers."""

    def __init__(self) -> None:
        self.names = SymbolNames()
        self._node = ""

    def graph(self, module: fx.GraphModule, example_inputs: Sequence[Any] | None) -> Code:
        """A graph: its nodes in order, each referring to others by position."""
        position: dict[fx.Node, int] = {}
        given = iter(example_inputs) if example_inputs is not None else None
        lines = []
        for node in module.graph.nodes:
            self._node = node.name
            if node.op == "placeholder":
                value = node_value(node) if given is None else next(given, None)
                lines.append(["input", self._value(value)])
            elif node.op == "get_attr":
                lines.append(["held", self._held(module, str(node.target))])
            else:
                target = node.target if isinstance(node.target, str) else self._function(node.target)
                if node.op == "call_module":
                    target = self._held(module, str(node.target))
                keywords = sorted(node.kwargs.items())
                arguments = [self._argument(value, position) for value in node.args]
                named = [[name, self._argument(value, position)] for name, value in keywords]
                lines.append([node.op, target, arguments, named])
            position[node] = len(position)
        return lines

    def _argument(self, value: Any, position: Mapping[fx.Node, int]) -> Code:
        if isinstance(value, fx.Node):
            return ["node", position[value]]
        if isinstance(value, dict):
            return ["dict", [[self._argument(k, position), self._argument(v, position)] for k, v in value.items()]]
        if isinstance(value, slice):
            return ["slice", *(self._argument(part, position) for part in (value.start, value.stop, value.step))]
        if isinstance(value, (set, frozenset)):
            return ["set", sorted(json.dumps(self._argument(item, position)) for item in value)]
        if isinstance(value, (tuple, list)):
            kind = "tuple" if isinstance(value, tuple) else "list"
            kind = kind if type(value) in (tuple, list, torch.Size) else self._class(type(value))
            return [kind, [self._argument(item, position) for item in value]]
        return self._value(value)

    def _value(self, value: Any) -> Code:
        if is_symbolic(value):
            return ["symbolic", type(value).__name__, self.names.text(value)]
        if isinstance(value, torch.Tensor):
            return ["tensor", *self._metadata(value)]
        if isinstance(value, _PLAIN):
            return [type(value).__name__, str(value)]
        if isinstance(value, enum.Enum):
            return ["enum", self._class(type(value)), value.name]
        if value is None or value is Ellipsis or type(value) in (bool, int, float, complex, str, bytes, range):
            return [type(value).__name__, repr(value)]
        if isinstance(value, type):
            return ["class", self._class(value)]
        if callable(value):
            return ["function", self._function(value)]
        raise self._unstable(f"a {type(value).__module__}.{type(value).__qualname__}")

    def _metadata(self, tensor: torch.Tensor) -> Code:
        layout = str(tensor.layout)
        strides = tensor.stride() if tensor.layout is torch.strided else ()
        offset = tensor.storage_offset() if tensor.layout is torch.strided else 0
        numbers = [[self._value(n) for n in part] for part in (tensor.shape, strides, (offset,))]
        flags = [bool(tensor.requires_grad), tensor.is_conj(), tensor.is_neg(), self._class(type(tensor))]
        if isinstance(tensor, (FakeTensor, torch.nn.Parameter)):  # a real example, or a fake, of a plain tensor
            flags[-1] = "torch.Tensor"
        return [str(tensor.dtype), str(tensor.device), layout, numbers, flags]

    def _held(self, module: fx.GraphModule, path: str) -> Code:
        value: Any = module
        for part in path.split("."):
            value = getattr(value, part)
        if isinstance(value, fx.GraphModule):
            outer, self._node = self._node, path
            body = self.graph(value, None)
            self._node = outer
            return ["graph", body]
        if isinstance(value, torch.Tensor):
            if isinstance(value, FakeTensor) or value.layout is not torch.strided or type(value).__module__ == "":
                raise self._unstable("a constant without values to compare")
            return ["constant", *self._metadata(value), _digest(value)]
        if isinstance(value, torch.nn.Module):
            raise self._unstable(f"the module {path} of class {type(value).__qualname__}")
        return ["value", self._argument(value, {})]

    def _function(self, target: Any) -> str:
        if is_operator(target):
            if str(target).startswith("triton_kernel_wrapper"):  # its kernel is a number in a table of this process
                raise self._unstable("a kernel of the program's")
            return operator_text(target)
        module = getattr(target, "__module__", None) or getattr(getattr(target, "__objclass__", None), "__module__", "")
        name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None)
        if is_torch_function(target):  # written in C, some without a module
            return f"torch.{name}"
        if name and module and str(module).partition(".")[0] in _STEADY_ROOTS and "<" not in name:
            return f"{module}.{name}"
        raise self._unstable(f"the function {module}.{name or target!r}, which another process may define otherwise")

    def _class(self, cls: type) -> str:
        if cls.__module__.partition(".")[0] not in _STEADY_ROOTS or "<" in cls.__qualname__:
            raise self._unstable(f"the class {cls.__module__}.{cls.__qualname__}")
        return f"{cls.__module__}.{cls.__qualname__}"

    def _unstable(self, what: str) -> UnstableGraph:
        return UnstableGraph(
            f"the graph has no hash that holds in another process: its node {self._node!r} refers to {what}",
            node=self._node,
            reason=what,
        )


def _digest(tensor: torch.Tensor) -> str:
    data = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return hashlib.sha256(data.view(-1).view(torch.uint8).numpy().tobytes() if data.numel() else b"").hexdigest()
