"""What nodes of a graph refer to, as JSON: constants, other nodes, functions by name."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins.errors import PluginError
from graphwright_plugins.torch_compat import FUNCTION_HOMES, operator_by_name, operator_name

_PLAIN: Final = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}


class NotSavable(PluginError, ValueError):
    """A graph can't be saved; the message names the node and what it refers to."""


def encode(value: Any, node_name: Callable[[fx.Node], str]) -> Any:
    """A value as JSON can hold it.

    Raises:
        NotSavable: It is of no kind that can be written down.
    """
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, fx.Node):
        return {"node": node_name(value)}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, complex):
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    for kind, cls in _PLAIN.items():
        if isinstance(value, cls):
            return {kind: str(value).removeprefix("torch.")}
    if isinstance(value, slice):
        return {"slice": [encode(part, node_name) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, dict):
        return {"dict": [[encode(k, node_name), encode(v, node_name)] for k, v in value.items()]}
    if isinstance(value, (tuple, list)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [encode(item, node_name) for item in value]}
    return {"function": function_name(value)}


def decode(code: Any, nodes: Mapping[str, fx.Node]) -> Any:
    """The value that `encode` wrote down."""
    if not isinstance(code, dict):
        return code
    [(kind, inner)] = code.items()
    if kind in _PLAIN:
        return getattr(torch, inner)
    return _DECODERS[kind](inner, nodes)


_DECODERS: Final[Mapping[str, Callable[[Any, Mapping[str, fx.Node]], Any]]] = {
    "float": lambda inner, nodes: float.fromhex(inner),
    "node": lambda inner, nodes: nodes[inner],
    "ellipsis": lambda inner, nodes: Ellipsis,
    "complex": lambda inner, nodes: complex(*map(float.fromhex, inner)),
    "device": lambda inner, nodes: torch.device(inner),
    "slice": lambda inner, nodes: slice(*(decode(part, nodes) for part in inner)),
    "dict": lambda inner, nodes: {decode(k, nodes): decode(v, nodes) for k, v in inner},
    "list": lambda inner, nodes: [decode(item, nodes) for item in inner],
    "tuple": lambda inner, nodes: tuple(decode(item, nodes) for item in inner),
    "function": lambda inner, nodes: function_by_name(inner),
}


def function_name(function: Any) -> str:
    """The name by which another process finds a function.

    Raises:
        NotSavable: There is none.
    """
    known = operator_name(function)
    if known is not None:
        return f"operator:{known}"
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    for module in (getattr(function, "__module__", None), *FUNCTION_HOMES):
        if isinstance(module, str) and isinstance(name, str) and _found(module, name) is function:
            return f"{module}:{name}"
    raise NotSavable(f"{function!r} has no name by which another process could find it")


def function_by_name(text: str) -> Any:
    """The function of a name.

    Raises:
        NotSavable: There is none here.
    """
    module, _, name = text.partition(":")
    found = operator_by_name(name) if module == "operator" and "::" in name else _found(module, name)
    if found is None:
        raise NotSavable(f"there is no function {text!r} here; import what defines it first")
    return found


def _found(module: str, name: str) -> Any:
    try:
        return operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError):
        return None
