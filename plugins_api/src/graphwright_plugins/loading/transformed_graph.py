"""Whether a graph that a transform left still takes and returns what the captured one does."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins.fake import constants_of
from graphwright_plugins.graphs.ambient_state import AmbientState
from graphwright_plugins.graphs.symbols import described, is_symbolic
from graphwright_plugins.graphs.unused_results import fresh_inputs
from graphwright_plugins.graphs.values import node_value, output_values
from graphwright_plugins.naming import raised
from graphwright_plugins.supports import location_of, op_text
from graphwright_plugins.torch_compat import (
    BEYOND_FAKES,
    FakeTensorMode,
    as_fake,
    fake_mode_of,
    forget_fresh_symbols,
    hint_of,
    new_fake_mode,
    real_tensors_allowed,
)

UNKNOWN: Final = object()
"""The value of an output that nobody noted."""
_OPERATOR_MODULES: Final = frozenset({"torch", "_operator", "operator", "builtins", "math"})
"""Where functions come from that work on fakes as they do on tensors."""


class BrokenGraph(Exception):
    """A graph isn't what a transform must leave; the message says why, as a clause."""


def noted_outputs(graph: fx.GraphModule) -> tuple[Any, ...]:
    """What a captured graph returns, on fakes; `UNKNOWN` where capture noted nothing."""
    return tuple(map(_noted, output_values(graph)))


def _noted(result: Any) -> Any:
    if not isinstance(result, fx.Node):
        return result
    value = node_value(result)
    return UNKNOWN if value is None else value


class BeforeTransform:
    """A graph as a transform gets it, kept to compare with what the transform leaves.

    Args:
        graph: The graph.
        example_inputs: Its inputs.
        outputs: What it returns, by `noted_outputs` of the captured graph: transforms needn't note what nodes give.
    """

    def __init__(self, graph: fx.GraphModule, example_inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self._module = graph
        self._graph = copy.deepcopy(graph.graph)
        self._content = _content(graph)
        self._inputs = example_inputs
        self._outputs = outputs

    def checked(self, graph: object) -> fx.GraphModule:
        """The graph that the transform left, recompiled.

        It runs on fakes, if it is another; which assumes of sizes what its operations do. The comparison assumes
        nothing of them.

        Raises:
            BrokenGraph: Something is wrong with it.
        """
        if not isinstance(graph, fx.GraphModule):
            raise BrokenGraph(f"it returned {graph!r}, which is neither a GraphModule nor None")
        try:
            graph.graph.lint()
        except Exception as error:
            raise BrokenGraph(f"the graph isn't well-formed: {error}") from error
        self._check_inputs(graph)
        self._check_number_of_outputs(graph)
        graph.recompile()
        if _content(graph) != self._content:
            self._check_outputs(self._values(graph))
        return graph

    def _check_inputs(self, graph: fx.GraphModule) -> None:
        wanted, found = (
            [node.name for node in each.find_nodes(op="placeholder")] for each in (self._graph, graph.graph)
        )
        if len(found) != len(wanted):
            raise BrokenGraph(f"the graph has {len(found)} inputs instead of {len(wanted)}")
        # One with a name of its own may be in its place. A name that was there before stands for that very input.
        if any(name != old and name in wanted for name, old in zip(found, wanted, strict=True)):
            raise BrokenGraph(f"the graph's inputs are ({', '.join(found)}) instead of ({', '.join(wanted)})")

    def _check_number_of_outputs(self, graph: fx.GraphModule) -> None:
        if not graph.graph.find_nodes(op="output"):
            raise BrokenGraph("the graph has no output")
        results: Any = graph.graph.output_node().args[0]
        before: Any = self._graph.output_node().args[0]
        if isinstance(before, (tuple, list)) and not isinstance(results, (tuple, list)):
            raise BrokenGraph(f"the graph returns {results} by itself instead of a tuple of {len(before)} outputs")
        found = len(output_values(graph))
        if found != len(self._outputs):
            raise BrokenGraph(f"the graph has {found} outputs instead of {len(self._outputs)}")

    def _check_outputs(self, values: Sequence[Any]) -> None:
        other = [place for place, found in enumerate(values) if _differ(self._outputs[place], found)]
        before = self._values_before() if other else None
        for place in other:
            wanted = self._outputs[place]
            # What differs from capture in a run of the graph as it was is nobody's fault here.
            if before is None or not _differ(wanted, before[place]):
                raise BrokenGraph(f"output {place} is {_told(values[place])} instead of {_told(wanted)}")

    def _values(self, graph: fx.GraphModule) -> tuple[Any, ...]:
        """What the graph returns, as far as that can be told."""
        run = _Run(graph, self._fake_mode)
        try:
            return run.outputs(self._inputs)
        except BEYOND_FAKES:
            pass
        except Exception as error:
            if run.is_of_operators and self._values_before() is not None:
                raise BrokenGraph(f"the graph can't be run: {run.place} raised {raised(error)}") from error
        return tuple(UNKNOWN if isinstance(result, fx.Node) else result for result in output_values(graph))

    def _values_before(self) -> tuple[Any, ...] | None:
        """What the graph returned as the transform got it; None where fakes can't run it, and tensors may."""
        try:
            return _Run(fx.GraphModule(self._module, self._graph), self._fake_mode).outputs(self._inputs)
        except Exception:  # noqa: BLE001  whatever the graph's operations raise
            return None

    @property
    def _fake_mode(self) -> FakeTensorMode:
        return fake_mode_of(self._inputs) or new_fake_mode()


class _Run(fx.Interpreter):
    """Runs a graph on fakes, and knows at which node it is."""

    def __init__(self, graph: fx.GraphModule, fake_mode: FakeTensorMode) -> None:
        super().__init__(graph)
        self.extra_traceback = False  # the message of what is raised stays the operation's own
        self._fake_mode = fake_mode
        self._node: fx.Node | None = None

    def outputs(self, example_inputs: Sequence[Any]) -> tuple[Any, ...]:
        """What it returns of copies of these inputs, which it may write to."""
        mode = self._fake_mode
        inputs = fresh_inputs([as_fake(mode, value) for value in example_inputs], mode)
        with _state_restored(), mode, real_tensors_allowed(mode):
            try:
                results = self.run(*inputs)
            finally:
                forget_fresh_symbols(mode)
        return tuple(results) if isinstance(results, (tuple, list)) else (results,)

    def run_node(self, n: fx.Node) -> Any:
        self._node = n
        value = super().run_node(n)
        return as_fake(self._fake_mode, value) if n.op == "get_attr" else value

    @property
    def is_of_operators(self) -> bool:
        """Whether it is at a call of torch's or Python's own; other functions need not take fakes."""
        node = self._node
        if node is None or node.op not in ("call_function", "call_method"):
            return False
        module = str(getattr(node.target, "__module__", None) or "torch")
        return node.op == "call_method" or module.partition(".")[0] in _OPERATOR_MODULES

    @property
    def place(self) -> str:
        """The node that it is at, in words."""
        node = self._node
        if node is None:
            return "the graph"
        location = location_of(node)
        return f"{op_text(node)} (node {node.name}{location and f', of {location}'})"


@contextlib.contextmanager
def _state_restored() -> Iterator[None]:
    """Undo what a graph that failed on its way did to grad mode, autocast and the like."""
    before = AmbientState.current()
    try:
        yield
    finally:
        for function, args in before.calls_from(AmbientState.current()):
            function(*args)


def _content(graph: fx.GraphModule) -> list[Any]:
    """What a graph and the bodies in it do, to be compared: where it is equal, nothing has changed."""
    constants = [(str(name), value.dtype, str(value.shape)) for name, value in constants_of(graph).items()]
    parts = [part for _, part in graph.named_modules() if isinstance(part, fx.GraphModule)]
    # Arguments as text: symbolic numbers in them, asked whether they are equal, would become guards.
    nodes = [
        (node.name, node.op, node.target, str(node.args), str(node.kwargs))
        for part in parts
        for node in part.graph.nodes
    ]
    return [constants, nodes]


def _differ(wanted: Any, found: Any) -> bool:
    """Whether an output is certainly another; symbolic sizes are asked nothing."""
    if wanted is UNKNOWN or found is UNKNOWN:
        return False
    if _kind(wanted) != _kind(found):
        return True
    if not isinstance(wanted, torch.Tensor):
        return _kind(wanted) in ("int", "bool") and _numbers_differ(wanted, found)
    if wanted.dtype != found.dtype or wanted.device.type != found.device.type or wanted.dim() != found.dim():
        return True
    if wanted.is_nested or found.is_nested:  # sizes that are no numbers
        return False
    return any(map(_numbers_differ, wanted.shape, found.shape))


def _numbers_differ(wanted: Any, found: Any) -> bool:
    """Whether a number is another: fixed where it varied, or another in the call that is compiled for."""
    first, second = described(wanted), described(found)
    if not (is_symbolic(wanted) and is_symbolic(found)):
        return first != second
    hints = hint_of(wanted), hint_of(found)
    return first != second and None not in hints and hints[0] != hints[1]


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "tensor"
    symbolic = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool"}
    return symbolic.get(type(value), "None" if value is None else type(value).__name__)


def _told(value: Any) -> str:
    """An output in words."""
    if isinstance(value, torch.Tensor):
        sizes = "?" if value.is_nested else ", ".join(map(_number_text, value.shape))
        return f"a tensor of {value.dtype} of sizes ({sizes}) on {value.device.type}"
    if is_symbolic(value) or isinstance(value, (bool, int, float)):
        return f"the {_kind(value)} {_number_text(value)}"
    return "None" if value is None else f"{value!r:.60} ({type(value).__name__})"


def _number_text(value: Any) -> str:
    return str(getattr(described(value), "expression", value))
