"""What a backend that takes parts of graphs says of nodes: protocols, answers, and asking it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from torch import fx

from .errors import BackendContractError, PluginError
from .naming import raised
from .torch_compat import DATA_DEPENDENT_ERRORS, asks_for_another_try

Part: TypeAlias = Collection[fx.Node]
"""The nodes of one part, in any order."""


NO_REASON: Final = "the backend gave no reason"
"""What stands for a reason that is empty."""


@dataclass(frozen=True)
class Unsupported:
    """Why a backend can't do a node."""

    reason: str
    """A clause: `"the device has no sort"`."""


@runtime_checkable
class HasSupports(Protocol):
    """Optional extension: the backend does some nodes, and the framework runs the others elsewhere."""

    def supports(self, node: fx.Node, options: Any) -> Unsupported | None:
        """Say why the backend can't do a node, or None when it can.

        It is asked for each call in a graph, before anything is cut. What the node gave on fakes is in
        `node.meta["example_value"]` at torch level and `node.meta["val"]` at operator level.

        Args:
            node: A node of op `call_function`, `call_method` or `call_module`. It may not be changed.
            options: A validated instance of the backend's `options_type`.
        """
        ...


@runtime_checkable
class HasPartitioner(Protocol):
    """Optional extension: the backend chooses its parts of a graph itself."""

    def partition(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: Any) -> Sequence[Part]:
        """Choose the nodes that the backend is to compile, as one collection for each part.

        What is in no part runs on the fallback backend. The framework finds the order of the parts in which all
        effects come as in the graph, and refuses parts that have none.

        Args:
            graph: The graph. It may not be changed.
            example_inputs: A fake tensor, number or symbolic number for each placeholder.
            options: A validated instance of the backend's `options_type`.
        """
        ...


@runtime_checkable
class HasFallback(Protocol):
    """Optional extension: what the backend doesn't do runs on this backend, where the user names no other."""

    @property
    def fallback_backend(self) -> str:
        """The name of a backend; `"eager"` where this is absent."""
        ...


@runtime_checkable
class HasMinimumPart(Protocol):
    """Optional extension: parts of fewer calls than this are not worth compiling, and run on the fallback."""

    @property
    def minimum_part_size(self) -> int:
        """The least number of calls in a part; 1 where this is absent."""
        ...


@dataclass(frozen=True)
class Refusal:
    """A node that is not compiled by the backend, and why."""

    node: str
    """The node's name."""
    op: str
    """What it calls."""
    reason: str
    """Why the backend doesn't get it."""
    location: str = ""
    """Where in the user's code, as `file:line`; empty where that is not known."""

    def __str__(self) -> str:
        at = f" at {self.location}" if self.location else ""
        return f"{self.node} ({self.op}){at}: {self.reason}"


def refusal(node: fx.Node, reason: str) -> Refusal:
    """The refusal of a node for a reason."""
    return Refusal(node.name, op_text(node), reason, location_of(node))


def op_text(node: fx.Node) -> str:
    """What a node calls, as a user would write it."""
    target: Any = node.target
    if node.op == "call_method":
        return f"Tensor.{target}"
    if isinstance(target, str):
        return target
    name = getattr(target, "__name__", None)
    text = str(target)
    if not isinstance(name, str) or re.fullmatch(r"\w+(\.\w+)+", text):  # an operator prints itself: aten.add.Tensor
        return text
    module = getattr(target, "__module__", None) or "torch"
    return f"{module.lstrip('_')}.{name}".removeprefix("builtins.")


def location_of(node: fx.Node) -> str:
    """Where in the user's code a node comes from, as `file:line`; empty where that is not known."""
    places = re.findall(r'File "(.+?)", line (\d+)', str(node.meta.get("stack_trace") or ""))
    return ":".join(places[-1]) if places else ""


def ask(backend: HasSupports, name: str, node: fx.Node, options: Any) -> str | None:
    """The reason why a backend can't do a node, or None.

    Raises:
        BackendContractError: It gave another answer than `Unsupported` or None, or raised what is no error of the
            contract's.
        PluginError: What it raised.
    """
    try:
        answer: object = backend.supports(node, options)
    except Exception as error:
        if isinstance(error, (PluginError, *DATA_DEPENDENT_ERRORS)) or asks_for_another_try(error):
            raise
        raise BackendContractError(
            f"supports({node.name}, …) of backend {name!r} raised {raised(error)}, asked for {op_text(node)}. It must "
            "return None where the backend does the node, and else Unsupported(reason)"
        ) from error
    if answer is None or isinstance(answer, Unsupported):
        return None if answer is None else answer.reason or NO_REASON
    raise BackendContractError(
        f"backend {name!r} answered {answer!r} to supports({node.name}, …); it must be None where it does the node, "
        "and else Unsupported(reason)"
    )
