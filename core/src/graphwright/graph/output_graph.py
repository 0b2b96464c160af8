"""The FX graph that one capture writes: inputs made at first use, nodes with fake values, the finished module."""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

import graphwright.graph_breaks as gb
from graphwright.exc import GraphwrightError
from graphwright.graph.ambient_state import AmbientState
from graphwright.graph.bodies import Bodies, ClosedBody
from graphwright.graph.dead_nodes import remove_dead_nodes
from graphwright.graph.fake import FakeFailure, FakeValues, layout_of
from graphwright.graph.finished_graph import FinishedGraph, graph_name
from graphwright.graph.graph_inputs import GraphInput, NumberInput, storage_groups
from graphwright.graph.graph_signature import Frame, graph_signature
from graphwright.graph.number_nodes import NumberNodes
from graphwright.graph.op_call import call_op, wrap_result
from graphwright.graph.placeholders import after_placeholder
from graphwright.graph_breaks import GraphBreakKind
from graphwright.shapes.algebra import NotExpressible
from graphwright.shapes.policy import ShapePolicy
from graphwright.shapes.symbols import SymbolTable
from graphwright.sources import Source
from graphwright.torch_compat import (
    DATA_DEPENDENT_ERRORS,
    ShapeEnv,
    SymbolicLayout,
    TracingContext,
    bind_fresh_symbols,
    count_of_assumptions,
    expression_of,
    forget_arithmetic,
    is_functorch_wrapped,
    outside_transforms,
    set_grad_enabled,
    shape_env_of,
    simplified,
    storage_key,
    tensor_version,
    varies,
)
from graphwright.variables.base import Args, Kwargs, Tx, VariableTracker
from graphwright.variables.op_traits import is_repeatable
from graphwright.variables.tensor import TensorVariable
from graphwright_plugins import GraphSignature

PLAIN_TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter)
"""Types whose operations torch alone decides; other tensor types have a say of their own."""


class OutputGraph:
    """One FX graph under construction.

    Args:
        location: gives the text of the user's position for `stack_trace`, or an empty string.
        module_stack: gives the modules being called, for `nn_module_stack`.
        shapes: says which sizes and numbers become symbols.
    """

    def __init__(
        self,
        location: Callable[[], str] = str,
        module_stack: Callable[[], dict[str, Any]] | None = None,
        shapes: ShapePolicy | None = None,
    ) -> None:
        self.graph = fx.Graph()
        self.bodies = Bodies(self.graph)
        self.shapes = shapes or ShapePolicy(automatic=False)
        self.fakes = FakeValues(values=self.shapes.captures_values, sizes=self.shapes.captures_sizes)
        self.symbols = SymbolTable(shape_env_of(self.fakes.mode))
        self.numbers = NumberNodes(self, self._node_of_symbol)
        self.tracing_context = TracingContext(self.fakes.mode)
        self.inputs: list[GraphInput] = []
        self.op_count = 0
        """Operations put into the graph so far."""
        self.must_stay_repeatable = False
        """Whether an operation put in so far may fail where the call has to run again in eager then."""
        self.entry_state = AmbientState.current()
        self.location = location
        self.module_stack = module_stack
        self.frame = Frame()
        """What is captured, for the signature."""
        self.number_inputs: list[NumberInput] = []
        self._input_of_tensor: dict[int, GraphInput] = {}
        self._input_of_fake: dict[int, GraphInput] = {}
        self._variables: dict[int, TensorVariable] = {}
        self._written_storages: set[int] = set()
        self._removable: set[fx.Node] = set()
        self._last_placeholder: fx.Node | None = None

    def release(self) -> None:
        """Let go of the tensors of the call, and of what else it was given."""
        self.frame = Frame()
        self.inputs.clear()
        self.number_inputs.clear()
        self._input_of_tensor.clear()
        self._input_of_fake.clear()
        self._variables.clear()
        forget_arithmetic(self.fakes.mode)

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
            with outside_transforms():
                fake, symbols = self._fake_of_input(tensor, source)
        except GraphwrightError:
            raise
        except Exception as error:  # noqa: BLE001  a tensor that cannot be faked stays in the interpreter
            tx.graph_break(gb.UNSUPPORTED_VALUE, f"tensor {source} has no fake stand-in: {error}")
        varying = tuple(dim for dim, size in enumerate(fake.shape) if varies(size))
        tx.capture.guards.add(source, "tensor", tensor, varying or None)
        node = self._placeholder(source, fake)
        bind_fresh_symbols(self.shape_env, node, fake)
        entry = GraphInput(
            node, source, tensor, fake, layout_of(fake), tensor_version(fake), fake.requires_grad, symbols
        )
        self.inputs.append(entry)
        self._input_of_tensor[id(tensor)] = self._input_of_fake[id(fake)] = entry
        return self.remember(TensorVariable(node, fake, source, tensor))

    def _fake_of_input(self, tensor: torch.Tensor, source: Source) -> tuple[torch.Tensor, SymbolicLayout | None]:
        plan = self.shapes.plan(source, tensor)
        if plan.is_static:
            return self.fakes.of_tensor(tensor), None
        return self.symbols.fake_of_tensor(self.fakes.mode, tensor, source, plan)

    def _placeholder(self, source: Source, fake: torch.Tensor | torch.SymInt | torch.SymFloat) -> fx.Node:
        name = re.sub(r"[\W_]+", "_", str(source)).lower()
        with after_placeholder(self.graph, self._last_placeholder):
            node = self.graph.create_node("placeholder", name, (), {}, name=name)
        node.target = node.name
        node.meta["example_value"] = fake
        node.meta["source"] = str(source)
        self._last_placeholder = node
        return node

    # ---------------------------------------------------------------- numbers

    @property
    def shape_env(self) -> ShapeEnv:
        """What is known and assumed of symbols."""
        return self.symbols.shape_env

    def _node_of_symbol(self, symbol: Any) -> fx.Node:
        """The node that gives a symbol's value, made at its first use."""
        place = self.symbols.place_of(symbol)
        if place is None:
            raise NotExpressible(f"{symbol} is known only inside the graph")
        if place.kind in ("int", "float"):
            return self.number_input(place.source)
        entry = next(entry for entry in self.inputs if entry.source is place.source)
        method, index = ("storage_offset", ()) if place.kind == "offset" else (place.kind, (place.index,))
        size = getattr(entry.fake, method)(*index)
        return self.create_node("call_method", method, (entry.node, *index), {}, size, removable=True)

    def number_input(self, source: Source) -> fx.Node:
        """The placeholder of a number from outside that is a symbol already."""
        known = next((entry.node for entry in self.number_inputs if entry.source is source), None)
        if known is not None:
            return known
        number = self.symbols.number_at(source)
        node = self._placeholder(source, number)
        self.number_inputs.append(NumberInput(node, source, number))
        return node

    def source_of_number(self, node: fx.Node) -> Source | None:
        """Where the number comes from that a placeholder stands for; None for any other node."""
        return next((entry.source for entry in self.number_inputs if entry.node is node), None)

    def known_value(self, number: torch.SymInt) -> int | None:
        """The value of a number that is fixed by now, else None."""
        expr = simplified(self.shape_env, expression_of(number))
        return int(expr) if isinstance(expr, int) or expr.is_Integer else None

    def fix_number(self, number: torch.SymInt | torch.SymFloat) -> Any:
        """The value of a symbolic number, an int or a float; the entry then serves calls with this value only."""
        with self._noting_assumptions():
            return int(number) if isinstance(number, torch.SymInt) else float(number)

    def decide(self, tx: Tx, question: Any) -> bool:
        """The answer to a question about symbolic numbers; the entry then serves calls with this answer only."""
        try:
            with self._noting_assumptions():
                return bool(question)
        except DATA_DEPENDENT_ERRORS:
            tx.graph_break(gb.DATA_DEPENDENT_BRANCH, f"whether {question} is known only when the graph runs")

    @contextlib.contextmanager
    def _noting_assumptions(self) -> Iterator[None]:
        """Remember where the program is when something is assumed of symbols."""
        before = count_of_assumptions(self.shape_env)
        yield
        after = count_of_assumptions(self.shape_env)
        if after > before:
            self.symbols.note_assumptions(range(before, after), self.location())

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
        node = self.bodies.graph.create_node(op, target, self.bodies.lifted(args), self.bodies.lifted(kwargs))
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
            with self._noting_assumptions():
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
        last = next(iter(reversed(self.bodies.graph.nodes)), None)
        if function is set_grad_enabled:
            if args[0] is torch.is_grad_enabled():
                return None
            # Two switches with nothing in between: `with torch.no_grad(): pass`.
            if last is not None and last.target is set_grad_enabled:
                self.bodies.graph.erase_node(last)
                return function(*args)
        result = function(*args)
        self.create_node("call_function", function, args, {}, result).meta["sets_state"] = True
        return result

    # ---------------------------------------------------------------- bodies

    def close_body(self, result: Any) -> ClosedBody:
        """End the innermost body with what it returns: a structure of nodes and literals."""
        closed = self.bodies.close(result, self._removable)
        inside = closed.module.graph
        for key in [key for key, variable in self._variables.items() if variable.node.graph is inside]:
            del self._variables[key]
        return closed

    def body_node(self, body: fx.GraphModule) -> fx.Node:
        """The node that stands for a finished body, as an argument of other nodes."""
        return self.create_node("get_attr", self.bodies.attach(body), (), {}, None)

    def call_with_body(self, tx: Tx, target: Any, args: tuple[Any, ...], result: Any) -> VariableTracker:
        """Put a call that takes bodies into the graph; its result on fakes is known already."""
        return wrap_result(self, tx, result, self.create_node("call_function", target, args, {}, result))

    def result_of(self, tx: Tx, result: Any, node: fx.Node) -> VariableTracker:
        """The variable of what a node gives, by its value on fakes."""
        return wrap_result(self, tx, result, node)

    def take_over(self, made: Sequence[TensorVariable], node: fx.Node) -> None:
        """Let tensors that a body made be the items of what a node gives."""
        for index, variable in enumerate(made):
            args = (node, index)
            variable.node = self.create_node("call_function", operator.getitem, args, {}, variable.fake, removable=True)
            self.remember(variable)

    @staticmethod
    def ambient_state() -> AmbientState:
        """Grad mode and autocast of this thread now."""
        return AmbientState.current()

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
        self.bodies.note_written(tensors)
        self._written_storages.update(key for t in tensors if (key := storage_key(t)) is not None)

    def mutated_inputs(self) -> list[GraphInput]:
        """The inputs whose values the graph changes, those that share a storage with such an input included."""
        groups = storage_groups(self.inputs)
        written = {
            group
            for entry, group in zip(self.inputs, groups, strict=True)
            if entry.layout[-1] in self._written_storages or entry.touched()
        }
        return [entry for entry, group in zip(self.inputs, groups, strict=True) if group in written]

    def are_of_inputs(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether any of these fakes is an input or shares a storage with one."""
        storages = {key for t in tensors if (key := storage_key(t)) is not None}
        return any(entry.layout[-1] in storages for entry in self.inputs)

    def is_repeatable(self) -> bool:
        """Whether what is in the graph so far can run again after it failed, from the same random state."""
        return all(is_repeatable(node) for node in self.graph.nodes) and not self.mutated_inputs()

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
        every: list[GraphInput | NumberInput] = [*self.inputs, *self.number_inputs]
        entries = {entry.node: entry for entry in every}
        used = [entries[node] for node in self.graph.nodes if node.op == "placeholder" and node.users]
        examples = self._example_inputs(used)
        for node in entries:
            if not node.users:
                self.graph.erase_node(node)
        nodes = [node for node in self.graph.nodes if node.op not in ("placeholder", "output")]
        changes_state = any("sets_state" in node.meta for node in nodes)
        # An operation nobody sees the result of still counts: it may print, draw numbers, or fail.
        empty = all("sets_state" in node.meta for node in nodes)
        module = None if empty else fx.GraphModule(self.bodies.root, self.graph, class_name="GraphModule")
        return FinishedGraph(
            name,
            module,
            used,
            examples,
            len(outputs),
            self.entry_state,
            self.is_repeatable(),
            self.fakes.mode.drew_random,
            changes_state,
            exit_state.calls_from(self.entry_state),
            None if module is None else self._signature(module, used, examples),
        )

    def _signature(
        self, module: fx.GraphModule, used: list[GraphInput | NumberInput], examples: list[Any]
    ) -> GraphSignature:
        groups = dict(zip(self.inputs, storage_groups(self.inputs), strict=True))
        mutated = set(self.mutated_inputs())
        inputs = [(e.node.name, e.source, e.tensor if isinstance(e, GraphInput) else None) for e in used]
        own_groups = [groups[e] if isinstance(e, GraphInput) else -1 - i for i, e in enumerate(used)]
        written = [i for i, entry in enumerate(used) if entry in mutated]
        signature = graph_signature(module, inputs, examples, written, own_groups, self.frame)
        self.frame = Frame()  # it refers to the call's arguments
        return signature

    def _example_inputs(self, used: list[GraphInput | NumberInput]) -> list[Any]:
        """Fakes with the metadata of the entry: those that the trace changed, and their aliases, are made anew."""
        mutated = {id(entry) for entry in self.mutated_inputs()}
        fresh = self.fakes.fresh()
        examples: list[Any] = []
        for entry in used:
            example: Any = entry.fake
            if isinstance(entry, GraphInput) and id(entry) in mutated:
                example = fresh(entry.tensor, entry.symbols)
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
