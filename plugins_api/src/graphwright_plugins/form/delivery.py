"""Brings a captured graph into the form that its backend wants, has it compiled, and wraps what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from graphwright_plugins.aot.compile import aot_compile, compile_context, positional
from graphwright_plugins.errors import UnsupportedGraph
from graphwright_plugins.graphs.values import node_value
from graphwright_plugins.protocol import CompiledGraph, GraphCompiler
from graphwright_plugins.signature import signature_of
from graphwright_plugins.torch_compat import FakeTensorMode, as_fake, outside_fake_mode

from .exchange import Exchangeable, Refit
from .fixed_sizes import fix_sizes, has_symbols, numbers_that_are_no_sizes, read_sizes_off_tensors
from .frozen_weights import Exchange, FrozenGraph, can_be_frozen
from .graph_form import GraphForm
from .input_layout import with_contiguous_inputs
from .plain_outputs import with_plain_outputs
from .reshaped_signature import Reshaped, with_signature
from .weights import as_constant, gradients_flow, offered_values, weights_of, with_constants


def compile_in_form(
    form: GraphForm,
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    compile_graph: GraphCompiler,
    *,
    refit: Refit | None = None,
) -> CompiledGraph:
    """Compile a captured graph by a backend that wants its graphs in a form of their own.

    Args:
        form: The form.
        graph: The graph as it was captured; it is not changed, unless it is wanted as it is.
        example_inputs: Its inputs on fakes.
        compile_graph: The backend; it may be called several times, and when a backward pass runs.
        refit: How the backend that `compile_graph` belongs to exchanges weights; None where it does not.

    Raises:
        LeftToEager: AOTAutograd can't do this graph as eager does.
        UnsupportedGraph: The graph has no such form.
    """
    if form.is_as_captured:
        return compile_graph(graph, example_inputs)
    with compile_context(example_inputs) as fake_mode:
        inputs = [as_fake(fake_mode, value) for value in example_inputs]
        graph = with_signature(graph, inputs, fake_mode)
        fixed = _fixed(form, graph, inputs, fake_mode)
        if fixed is None:
            return _with_weights(form, graph, inputs, range(len(inputs)), compile_graph, refit)
        compiled = _with_weights(form, fixed.graph, fixed.example_inputs, fixed.kept, compile_graph, refit)
    return compiled if fixed.wrap is None else fixed.wrap(compiled)


def _fixed(form: GraphForm, graph: fx.GraphModule, inputs: Sequence[Any], fake_mode: FakeTensorMode) -> Reshaped | None:
    """The graph with sizes fixed, before anything is compiled: the guards still have to learn of it."""
    if form.sizes == "fixed" and has_symbols(inputs):
        return fix_sizes(graph, inputs, fake_mode)
    if form.sizes == "from_tensors" and (others := numbers_that_are_no_sizes(inputs)):
        return fix_sizes(graph, inputs, fake_mode, others)
    return None


def _with_weights(
    form: GraphForm,
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    kept: Sequence[int],
    compile_graph: GraphCompiler,
    refit: Refit | None,
) -> CompiledGraph:
    deliver = _Delivery(form, graph, inputs, compile_graph, refit if form.weights == "refit" else None)
    offered = offered_values()
    if form.weights == "inputs" or offered is None or gradients_flow(graph, inputs):
        return deliver({})[0]
    signature = signature_of(graph, inputs)
    weights = weights_of(signature)
    values = [offered.values[place] for place in kept]
    if not weights or not can_be_frozen([values[place] for place in weights]):
        return deliver({})[0]
    frozen = FrozenGraph(graph, inputs, signature, weights, deliver)
    frozen.begin(offered, values)
    return frozen


class _Delivery:
    """Has one graph compiled in a form, with some of its inputs constants perhaps; as often as it is called."""

    def __init__(
        self,
        form: GraphForm,
        graph: fx.GraphModule,
        inputs: Sequence[Any],
        compile_graph: GraphCompiler,
        refit: Refit | None,
    ) -> None:
        self._form = form
        self._graph = graph
        self._inputs = inputs
        self._compile_graph = compile_graph
        self._refit = refit

    def __call__(self, constants: Mapping[int, torch.Tensor]) -> tuple[CompiledGraph, Exchange | None]:
        inputs = signature_of(self._graph, self._inputs).inputs if constants else ()
        contiguous = self._form.contiguous
        # Here and now: inside AOTAutograd real tensors can't be touched.
        constants = {i: as_constant(t, inputs[i].kind, contiguous=contiguous) for i, t in constants.items()}
        exchangeable = Exchangeable(self._refit) if self._refit is not None and constants else None
        compiled = self._compile(constants, exchangeable)
        return compiled, None if exchangeable is None else exchangeable.exchange

    def _compile(self, constants: Mapping[int, torch.Tensor], exchangeable: Exchangeable | None) -> CompiledGraph:
        if self._form.level == "torch":
            with compile_context(self._inputs):
                names = {place: place for place in constants}
                return self._compile_part(self._graph, self._inputs, constants, names, exchangeable)

        def compile_operators(part: fx.GraphModule, part_inputs: Sequence[Any]) -> Callable[..., Any]:
            originals = [entry.original for entry in signature_of(part)]
            places = {i: o for i, o in enumerate(originals) if o is not None and o in constants}
            own = {i: constants[o] for i, o in places.items()}
            return self._compile_part(part, part_inputs, own, places, exchangeable)

        return aot_compile(
            self._graph,
            self._inputs,
            compile_operators,
            decompositions=self._form.decomposition_table(),
            partition=self._form.partition,
            keep_inference_input_mutations=self._form.in_place,
        )

    def _compile_part(
        self,
        graph: fx.GraphModule,
        inputs: Sequence[Any],
        constants: Mapping[int, torch.Tensor],
        places: Mapping[int, int],
        exchangeable: Exchangeable | None,
    ) -> Callable[..., Any]:
        """Compile one graph that has its level: `places` says which input of the captured graph each constant is."""
        form = self._form
        names = [node.name for node in graph.graph.find_nodes(op="placeholder")]
        part = _Part(graph, inputs)
        with compile_context(inputs) as fake_mode:
            if form.sizes == "from_tensors":
                part.become(read_sizes_off_tensors(*part.now, fake_mode, of_operators=form.level == "aten"))
            if not (form.aliasing and form.literals):
                part.become(with_plain_outputs(*part.now, fake_mode, aliasing=form.aliasing))
            if constants:
                held = {part.kept.index(i): tensor for i, tensor in constants.items()}
                part.become(with_constants(*part.now, fake_mode, held))
            if form.contiguous:
                part.become(with_contiguous_inputs(*part.now, fake_mode))
            _check_dtypes(form, part.now[0])
            with outside_fake_mode():
                compiled = self._compile_graph(*part.now)
            if form.level == "aten" and (part.is_wrapped or exchangeable is not None):
                compiled = positional(compiled)
            if exchangeable is not None and constants:
                compiled = exchangeable.hold(compiled, {place: names[i] for i, place in places.items()})
            return part.around(compiled)


class _Part:
    """A graph on its way through the steps, and what each step puts around the compiled graph."""

    def __init__(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> None:
        self.now: tuple[fx.GraphModule, Sequence[Any]] = (graph, inputs)
        self.kept: list[int] = list(range(len(inputs)))
        """Which of the first graph's inputs there still are."""
        self._wraps: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = []

    @property
    def is_wrapped(self) -> bool:
        """Whether anything is put around the compiled graph."""
        return bool(self._wraps)

    def become(self, step: Reshaped) -> None:
        """Go on with what a step made."""
        self.now = (step.graph, step.example_inputs)
        self.kept = [self.kept[place] for place in step.kept]
        if step.wrap is not None:
            self._wraps.append(step.wrap)

    def around(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled graph, called as the first graph is."""
        for wrap in reversed(self._wraps):
            compiled = wrap(compiled)
        return compiled


def _check_dtypes(form: GraphForm, graph: fx.GraphModule) -> None:
    """Refuse a graph with a tensor of a dtype that the form leaves out.

    Raises:
        UnsupportedGraph: There is one.
    """
    if form.dtypes is None:
        return
    for node in graph.graph.nodes:
        value = node_value(node)
        for tensor in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(tensor, torch.Tensor) and tensor.dtype not in form.dtypes:
                raise UnsupportedGraph(
                    f"{node.name} is of dtype {tensor.dtype}, which the backend does not take",
                    node=node.name,
                    reason=f"dtype {tensor.dtype}",
                )
