"""The FX graph that one capture writes: inputs made at first use, nodes with fake values, the finished module."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

import graphwright.graph_breaks as gb
from graphwright.graph.ambient_state import AmbientState, StateCall
from graphwright.graph.dead_nodes import remove_dead_nodes
from graphwright.graph.fake import FakeFailure, FakeValues, layout_of
from graphwright.graph.op_call import call_op
from graphwright.graph_breaks import GraphBreakKind
from graphwright.sources import Source
from graphwright.torch_compat import (
    TracingContext,
    is_functorch_wrapped,
    set_grad_enabled,
    storage_key,
    tensor_version,
)
from graphwright.variables.base import Args, Kwargs, Tx, VariableTracker
from graphwright.variables.tensor import TensorVariable

PLAIN_TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter)
"""Types whose operations torch alone decides; other tensor types have a say of their own."""


@dataclass(eq=False)
class GraphInput:
    """A placeholder and the tensor it stands for."""

    node: fx.Node
    source: Source
    tensor: torch.Tensor = field(repr=False)
    fake: torch.Tensor
    layout: tuple[Any, ...]
    version: int
    requires_grad: bool

    def layout_changed(self) -> bool:
        """Whether the trace changed sizes, strides or storage."""
        return layout_of(self.fake) != self.layout

    def touched(self) -> bool:
        """Whether the fake is no longer what it was at entry."""
        return (
            tensor_version(self.fake) != self.version
            or self.fake.requires_grad != self.requires_grad
            or self.layout_changed()
        )


@dataclass(frozen=True)
class FinishedGraph:
    """What the backend gets, and which inputs the call needs.

    Attributes:
        module: the graph, or None when it computes nothing.
        inputs: the inputs, in the order of the placeholders.
        example_inputs: a fake for each input, as it was at entry.
        changes_state: the graph sets global state on its way, and restores it at its end.
        state_calls: what brings the thread from the state at entry to the program's state at the graph's end.
    """

    name: str
    module: fx.GraphModule | None
    inputs: list[GraphInput]
    example_inputs: list[torch.Tensor]
    n_outputs: int
    entry_state: AmbientState
    changes_state: bool
    state_calls: list[StateCall]


class OutputGraph:
    """One FX graph under construction.

    Args:
        location: gives the text of the user's position for `stack_trace`, or an empty string.
        module_stack: gives the modules being called, for `nn_module_stack`.
    """

    def __init__(
        self, location: Callable[[], str] = str, module_stack: Callable[[], dict[str, Any]] | None = None
    ) -> None:
        self.graph = fx.Graph()
        self.fakes = FakeValues()
        self.tracing_context = TracingContext(self.fakes.mode)
        self.inputs: list[GraphInput] = []
        self.op_count = 0
        """Operations put into the graph so far."""
        self.entry_state = AmbientState.current()
        self.location = location
        self.module_stack = module_stack
        self._input_of_tensor: dict[int, GraphInput] = {}
        self._input_of_fake: dict[int, GraphInput] = {}
        self._variables: dict[int, TensorVariable] = {}
        self._written_storages: set[int] = set()
        self._removable: set[fx.Node] = set()
        self._last_placeholder: fx.Node | None = None

    # ---------------------------------------------------------------- inputs

    def add_input(self, tx: Tx, tensor: torch.Tensor, source: Source) -> TensorVariable:
        """The variable of a tensor from outside; makes the placeholder and the guard at its first use.

        A tensor reached by a second source gives the same variable: the caller guards that both give one object.
        """
        known = self._input_of_tensor.get(id(tensor))
        if known is not None:
            return self._variables[id(known.fake)]
        check_plain(tx, tensor, source)
        try:
            fake = self.fakes.of_tensor(tensor)
        except Exception as error:  # noqa: BLE001  a tensor that cannot be faked stays in the interpreter
            tx.graph_break(gb.UNSUPPORTED_VALUE, f"tensor {source} has no fake stand-in: {error}")
        tx.capture.guards.add(source, "tensor", tensor, None)
        node = self._placeholder(source, fake)
        entry = GraphInput(node, source, tensor, fake, layout_of(fake), tensor_version(fake), fake.requires_grad)
        self.inputs.append(entry)
        self._input_of_tensor[id(tensor)] = self._input_of_fake[id(fake)] = entry
        return self.remember(TensorVariable(node, fake, source, tensor))

    def _placeholder(self, source: Source, fake: torch.Tensor) -> fx.Node:
        name = re.sub(r"[\W_]+", "_", str(source)).lower()
        with self.graph.inserting_after(self._last_placeholder):
            node = self.graph.create_node("placeholder", name, (), {}, name=name)
        node.target = node.name
        node.meta["example_value"] = fake
        node.meta["source"] = str(source)
        self._last_placeholder = node
        return node

    def input_of(self, fake: torch.Tensor) -> GraphInput | None:
        """The input that a fake stands for, if any."""
        return self._input_of_fake.get(id(fake))

    # ---------------------------------------------------------------- nodes

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        fake_result: Any,
        *,
        removable: bool = False,
    ) -> fx.Node:
        """Append a node; `removable` says that it may go when nobody uses it."""
        node = self.graph.create_node(op, target, args, kwargs)
        self.op_count += 1
        meta = node.meta
        meta["example_value"] = fake_result
        meta["stack_trace"] = self.location()
        if self.module_stack is not None and (modules := self.module_stack()):
            meta["nn_module_stack"] = modules
        meta["source_fn_stack"] = [(node.name, target)]
        if removable:
            self._removable.add(node)
        return node

    def call_op(self, tx: Tx, kind: str, target: Any, args: Args, kwargs: Kwargs | None = None) -> VariableTracker:
        """Put an operation on variables into the graph: `kind` is ``call_function`` or ``call_method``."""
        return call_op(self, tx, kind, target, args, kwargs or {})

    def run_fake(self, tx: Tx, function: Callable[..., Any], *args: Any, what: str = "") -> Any:
        """Run a function on fake values; breaks the graph where that cannot be done."""
        try:
            return self.fakes.run(function, args, {}, what or getattr(function, "__name__", repr(function)))
        except FakeFailure as failure:
            tx.graph_break(failure.kind, failure.detail)

    def value_of(self, tx: Tx, tensor: TensorVariable, convert: Callable[[Any], Any], kind: GraphBreakKind) -> Any:
        """What `convert` gives for a tensor whose value is known; breaks the graph, by `kind`, for any other."""
        try:
            return self.fakes.run(convert, (tensor.fake,), {}, getattr(convert, "__name__", "conversion"))
        except FakeFailure as failure:
            if failure.kind is gb.DATA_DEPENDENT_VALUE:
                tx.graph_break(kind, f"value of a {describe(tensor.fake)}")
            tx.graph_break(failure.kind, failure.detail)

    def set_state(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function that sets global state, now and again in the graph."""
        last = next(iter(reversed(self.graph.nodes)), None)
        if function is set_grad_enabled:
            if args[0] is torch.is_grad_enabled():
                return None
            # Two switches with nothing in between: `with torch.no_grad(): pass`.
            if last is not None and last.target is set_grad_enabled:
                self.graph.erase_node(last)
                return function(*args)
        result = function(*args)
        self.create_node("call_function", function, args, {}, result).meta["sets_state"] = True
        return result

    # ---------------------------------------------------------------- what is known of fakes

    def remember(self, variable: TensorVariable) -> TensorVariable:
        """Make a variable the one of its fake."""
        self._variables[id(variable.fake)] = variable
        return variable

    def variable_of(self, fake: torch.Tensor) -> TensorVariable | None:
        """The variable of a fake tensor."""
        return self._variables.get(id(fake))

    def note_written(self, tensors: Sequence[torch.Tensor]) -> None:
        """Record that these tensors' values changed in place."""
        self._written_storages.update(key for t in tensors if (key := storage_key(t)) is not None)

    def storage_groups(self) -> list[int]:
        """A group id for each input: two inputs have the same id when they share a storage."""
        groups: dict[Any, int] = {}
        ids: list[int] = []
        for entry in self.inputs:
            tensor = entry.tensor
            address = tensor.untyped_storage().data_ptr() if tensor.numel() else 0  # an empty view shares nothing
            key = (tensor.device, address) if address else id(entry)
            ids.append(groups.setdefault(key, len(groups)))
        return ids

    def mutated_inputs(self) -> list[GraphInput]:
        """The inputs whose values the graph changes, those that share a storage with such an input included."""
        groups = self.storage_groups()
        written = {
            group
            for entry, group in zip(self.inputs, groups, strict=True)
            if entry.layout[-1] in self._written_storages or entry.touched()
        }
        return [entry for entry, group in zip(self.inputs, groups, strict=True) if group in written]

    # ---------------------------------------------------------------- the end

    def finish(self, outputs: Sequence[fx.Node], name: str | None = None, n: int = 0) -> FinishedGraph:
        """Close the graph with these outputs.

        The graph leaves global state as it found it; `state_calls` of the result goes on to the program's state.
        """
        exit_state = AmbientState.current()
        for function, args in self.entry_state.calls_from(exit_state):
            node = self.create_node("call_function", function, args, {}, None)
            node.meta["sets_state"] = True
        name = name or graph_name(n)
        self.graph.output(tuple(outputs))
        remove_dead_nodes(self.graph, self._removable)
        used = [entry for entry in self.inputs if entry.node.users]
        examples = self._example_inputs(used)
        for entry in self.inputs:
            if not entry.node.users:
                self.graph.erase_node(entry.node)
        nodes = [node for node in self.graph.nodes if node.op not in ("placeholder", "output")]
        changes_state = any("sets_state" in node.meta for node in nodes)
        # An operation nobody sees the result of still counts: it may print, draw numbers, or fail.
        empty = all("sets_state" in node.meta for node in nodes)
        module = None if empty else fx.GraphModule(torch.nn.Module(), self.graph, class_name="GraphModule")
        return FinishedGraph(
            name,
            module,
            used,
            examples,
            len(outputs),
            self.entry_state,
            changes_state,
            exit_state.calls_from(self.entry_state),
        )

    def _example_inputs(self, used: list[GraphInput]) -> list[torch.Tensor]:
        """Fakes with the metadata of the entry: those that the trace changed, and their aliases, are made anew."""
        mutated = {id(entry) for entry in self.mutated_inputs()}
        fresh = self.fakes.fresh()
        examples = []
        for entry in used:
            example = fresh(entry.tensor) if id(entry) in mutated else entry.fake
            entry.node.meta["example_value"] = example
            examples.append(example)
        return examples


def check_plain(tx: Tx, tensor: torch.Tensor, source: Source) -> None:
    """Break the graph for a tensor that is not a plain strided one."""
    if type(tensor) not in PLAIN_TENSOR_TYPES or is_functorch_wrapped(tensor):
        tx.graph_break(gb.TENSOR_SUBCLASS, f"{source} is a {type(tensor).__qualname__}")
    odd = tensor.is_quantized or tensor.is_nested
    named = any(n is not None for n in getattr(tensor, "names", ()))
    if odd or named or tensor.layout is not torch.strided:
        tx.graph_break(gb.UNSUPPORTED_VALUE, f"{source} is a {tensor.layout} tensor, or quantized, nested or named")


def describe(tensor: torch.Tensor) -> str:
    """A tensor in words: ``float32 tensor of shape (2, 3)``."""
    return f"{str(tensor.dtype).removeprefix('torch.')} tensor of shape {tuple(tensor.shape)}"


def graph_name(n: int) -> str:
    """The global name that a compiled graph is found under."""
    return f"__compiled_fn_{n}_{uuid.uuid4().hex}"
