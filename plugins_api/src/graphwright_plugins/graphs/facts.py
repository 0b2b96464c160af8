"""What each node of a graph does, seen in a trial run on fakes: memory it reads and writes, state it sets, its value.

The run is of a graph of any level: what counts is which operators of the dispatcher a node ends in.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins.torch_compat import (
    FakeTensorMode,
    TorchDispatchMode,
    as_fake,
    forget_fresh_symbols,
    is_operator,
    set_grad_enabled,
)

from .ambient_state import AmbientState
from .input_copies import copies_of
from .unused_results import storages_of

_STATE_SETTERS: Final[frozenset[Any]] = frozenset(
    {
        set_grad_enabled,
        torch.set_grad_enabled,
        torch.set_autocast_enabled,
        torch.set_autocast_dtype,
        torch.set_autocast_cache_enabled,
        torch.autocast_increment_nesting,
        torch.autocast_decrement_nesting,
        torch.clear_autocast_cache,
    }
)
_NOTHING_UNKNOWN: Final = ("torch", "_operator", "operator", "builtins", "math", "graphwright")
_KERNELS_THAT_WRITE: Final = ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm")
"""Operators whose schema does not tell that they write to running statistics, their arguments 3 and 4."""
# fmt: off
_CHANGE_METADATA: Final = frozenset(
    {
        "t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "as_strided_", "resize_", "resize_as_",
        "set_", "requires_grad_", "detach_", "rename_", "swap_tensors",
    }
)
# fmt: on


@dataclass(frozen=True)
class NodeFacts:
    """What one node does."""

    value: Any
    """What it gave, a fake where it is a tensor."""
    state: AmbientState
    """The state of the thread when it begins."""
    memory: frozenset[int]
    """Ids of the memory of the tensors that it gave."""
    reads: frozenset[int]
    """Ids of the memory of its arguments."""
    writes: frozenset[int]
    """Ids of the memory it writes to."""
    is_random: bool
    """Whether it draws random numbers."""
    is_opaque: bool
    """Whether it may do what tensors do not show: a custom operator, a function of the program's, an assertion."""
    runs_kernels: bool
    """Whether it asks anything of a tensor but sizes, strides, dtype and device."""
    sets_state: bool
    """Whether it does nothing but set state of the thread."""
    changes_metadata: bool
    """Whether it changes sizes, strides or the place in autograd of a tensor that exists."""

    @property
    def is_ordered(self) -> bool:
        """Whether its place among others that are ordered counts."""
        return self.is_random or self.is_opaque


@dataclass(frozen=True)
class GraphFacts:
    """What the nodes of one graph do, and the state at its entry."""

    nodes: Mapping[fx.Node, NodeFacts]
    entry_state: AmbientState

    def value(self, node: fx.Node) -> Any:
        """What a node gave."""
        return self.nodes[node].value


def observe(graph: fx.GraphModule, example_inputs: Sequence[Any], fake_mode: FakeTensorMode) -> GraphFacts:
    """Run a graph on fakes and note what its nodes do; neither the graph nor the inputs are changed.

    Args:
        graph: The graph.
        example_inputs: Fakes of this mode, numbers or symbolic numbers.
        fake_mode: The mode.
    """
    copies = copies_of(example_inputs, fake_mode)
    entry = AmbientState.current()
    run = _Observer(graph, fake_mode, _ids_of_copies(example_inputs, copies))
    try:
        with fake_mode, run.watch:
            run.run(*copies)
    finally:
        entry.install()
    forget_fresh_symbols(fake_mode)
    return GraphFacts(run.facts, entry)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested tuples, lists, dicts and slices."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, slice):
        yield from tensors_in((value.start, value.stop, value.step))


def holds_tensor(value: Any) -> bool:
    """Whether a value is, or contains, a tensor."""
    return next(tensors_in(value), None) is not None


def memory_of(value: Any) -> Iterator[int]:
    """Ids of the memory of the tensors in a value; one that has no storage is told by its own id."""
    for tensor in tensors_in(value):
        found = list(storages_of(tensor))
        yield from found or (-id(tensor),)


def _ids_of_copies(originals: Sequence[Any], copies: Sequence[Any]) -> dict[int, int]:
    """For the memory of each copy, the id of that of the first input that shares memory with its original."""
    first: dict[int, int] = {}
    shared = {}
    for original, copy in zip(originals, copies, strict=True):
        for key, own in zip(memory_of(original), memory_of(copy), strict=True):
            shared[own] = first.setdefault(key, own)
    return shared


class _Watch(TorchDispatchMode):
    """Notes what the operators of the node at hand do."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's, without annotations
        self.clear()

    def clear(self) -> None:
        """Begin with the next node."""
        self.written: set[int] = set()
        self.is_random = False
        self.is_unknown = False
        self.runs_kernels = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        schema = getattr(func, "_schema", None)
        if schema is None:  # a higher-order operator: what its bodies do is not seen
            self.is_unknown = self.runs_kernels = True
            return func(*args, **named)
        for position, argument in enumerate(schema.arguments):
            if argument.is_write:
                self.written.update(memory_of(args[position] if position < len(args) else named.get(argument.name)))
        name = schema.name.partition("::")[2]
        self.runs_kernels |= func.namespace != "prim" and not name.startswith("sym_")
        if name in _KERNELS_THAT_WRITE:
            self.written.update(memory_of(list(args[3:5])))
        self.is_random |= torch.Tag.nondeterministic_seeded in func.tags
        self.is_unknown |= func.namespace not in ("aten", "prim", "prims")
        return func(*args, **named)


class _Observer(fx.Interpreter):
    def __init__(self, graph: fx.GraphModule, fake_mode: FakeTensorMode, shared: Mapping[int, int]) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.facts: dict[fx.Node, NodeFacts] = {}
        self.watch = _Watch()
        self._fake_mode = fake_mode
        self._shared = shared

    def run_node(self, n: fx.Node) -> Any:
        state = AmbientState.current()
        self.watch.clear()
        value = super().run_node(n)
        if n.op == "get_attr":
            value = as_fake(self._fake_mode, value)
        self.facts[n] = self._noted(n, value, state)
        return value

    def _noted(self, node: fx.Node, value: Any, state: AmbientState) -> NodeFacts:
        name = getattr(node.target, "__name__", str(node.target))
        calls = node.op.startswith("call_")
        first = self.facts[node.all_input_nodes[0]].value if node.all_input_nodes else None
        changes_metadata = calls and name in _CHANGE_METADATA and isinstance(first, torch.Tensor)
        writes = self.watch.written | (set(memory_of(first)) if changes_metadata else set())
        sets_state = calls and not holds_tensor(value) and self._sets_state(node, state)
        silent = calls and value is None and not writes and not sets_state
        return NodeFacts(
            value=value,
            state=state,
            memory=self._ids(memory_of(value)),
            reads=self._ids(key for argument in node.all_input_nodes for key in memory_of(self.facts[argument].value)),
            writes=self._ids(writes),
            is_random=self.watch.is_random,
            is_opaque=self.watch.is_unknown or silent or (calls and _is_unknown(node)),
            runs_kernels=self.watch.runs_kernels,
            sets_state=sets_state,
            changes_metadata=changes_metadata,
        )

    def _ids(self, keys: Iterable[int]) -> frozenset[int]:
        return frozenset(self._shared.get(key, key) for key in keys)

    @staticmethod
    def _sets_state(node: fx.Node, before: AmbientState) -> bool:
        return "sets_state" in node.meta or node.target in _STATE_SETTERS or before != AmbientState.current()


def _is_unknown(node: fx.Node) -> bool:
    """Whether a node calls something that is neither an operator nor of torch's own functions."""
    target: Any = node.target
    if node.op == "call_method" or target is operator.getitem or is_operator(target):
        return False
    if node.op == "call_module":
        return True
    module = getattr(target, "__module__", None) or "torch"
    return module.partition(".")[0] not in _NOTHING_UNKNOWN
