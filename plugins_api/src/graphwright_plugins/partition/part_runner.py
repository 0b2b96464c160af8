"""Compiles the parts of a cut graph, each for the fakes that reach it, and runs them one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from graphwright_plugins.errors import BackendContractError
from graphwright_plugins.graphs.input_copies import copies_of
from graphwright_plugins.graphs.unused_results import fresh_inputs
from graphwright_plugins.signature import GraphSignature
from graphwright_plugins.torch_compat import FakeTensorMode, as_fake, forget_fresh_symbols

from .cutting import Compile, CutGraph, CutPart, Value
from .part_signatures import PartSignatures


@dataclass(frozen=True, slots=True)
class _Step:
    """One call: which slots it takes, and which it fills."""

    function: Callable[..., Sequence[Any]]
    takes: tuple[int, ...]
    gives: tuple[int, ...]
    frees: tuple[int, ...]
    whose: str

    def call(self, slots: list[Any]) -> Sequence[Any]:
        """Call the part.

        Raises:
            BackendContractError: It returned something else than its outputs.
        """
        results = self.function(*[slots[i] for i in self.takes])
        if not isinstance(results, (tuple, list)):
            raise self._fault(f"a {type(results).__name__} where a tuple or list of outputs is expected")
        if len(results) != len(self.gives):
            raise self._fault(f"{len(results)} outputs where the part has {len(self.gives)}")
        return results

    def _fault(self, what: str) -> BackendContractError:
        return BackendContractError(f"{self.whose}: what it compiled of a part of a graph returned {what}")


class RunInParts:
    """A compiled graph that runs its parts in turn."""

    def __init__(
        self,
        steps: Sequence[_Step],
        results: Callable[..., Sequence[Any]],
        takes: Sequence[int],
        n_inputs: int,
        n_slots: int,
    ) -> None:
        self._steps = tuple(steps)
        self._results = results
        self._takes = tuple(takes)
        self._rest = (None,) * (n_slots - n_inputs)

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Run with the inputs of the whole graph."""
        slots = [*inputs, *self._rest]
        del inputs
        for step in self._steps:
            for slot, result in zip(step.gives, step.call(slots), strict=True):
                slots[slot] = result
            for slot in step.frees:
                slots[slot] = None
        return self._results(*[slots[i] for i in self._takes])


def compile_parts(
    cut: CutGraph,
    signature: GraphSignature,
    example_inputs: Sequence[Any],
    fake_mode: FakeTensorMode,
    compile_part: Compile,
    whose: Callable[[CutPart], str],
) -> RunInParts:
    """Compile all parts in order.

    Args:
        cut: The graph in parts.
        signature: The signature of the whole graph.
        example_inputs: Fakes of the mode, numbers or symbolic numbers for the whole graph.
        fake_mode: The mode.
        compile_part: Compiles one of them.
        whose: The backend that does, in a message.
    """
    slots = {value: number for number, value in enumerate(cut.inputs)}
    run = _FakeRun(cut, signature, example_inputs, fake_mode)
    calls: list[tuple[Callable[..., Sequence[Any]], tuple[int, ...], tuple[int, ...], str]] = []
    for part in cut.parts:
        examples = run.examples(part)
        run.run(part, examples)
        takes = tuple(slots[value] for value in part.inputs)
        gives = tuple(slots.setdefault(value, len(slots)) for value in part.outputs)
        calls.append((compile_part(part, examples), takes, gives, whose(part)))
    forget_fresh_symbols(fake_mode)
    kept = tuple(slots[value] for value in cut.results.inputs)
    last_use = {slot: number for number, (_, takes, gives, _) in enumerate(calls) for slot in (*takes, *gives)}
    frees = [
        tuple(s for s, last in last_use.items() if last == number and s not in kept) for number in range(len(calls))
    ]
    steps = [
        _Step(function, takes, gives, free, owner)
        for (function, takes, gives, owner), free in zip(calls, frees, strict=True)
    ]
    return RunInParts(steps, cut.results.module.forward, kept, len(cut.inputs), len(slots))


class _FakeRun:
    """Carries fakes through the parts, so that each is compiled for what really reaches it."""

    def __init__(
        self, cut: CutGraph, signature: GraphSignature, example_inputs: Sequence[Any], fake_mode: FakeTensorMode
    ) -> None:
        self._signatures = PartSignatures(cut, signature)
        self._fake_mode = fake_mode
        self._given = dict(zip(cut.inputs, example_inputs, strict=True))
        self._values: dict[Value, Any] = dict(zip(cut.inputs, copies_of(example_inputs, fake_mode), strict=True))
        self._facts = cut.facts
        self._written: set[int] = set()

    def examples(self, part: CutPart) -> list[Any]:
        """What to compile a part for; also noted on its placeholders."""
        found = []
        placeholders = part.module.graph.find_nodes(op="placeholder")
        for value, placeholder in zip(part.inputs, placeholders, strict=True):
            example = self._example(value)
            placeholder.meta["example_value"] = example
            if "val" in placeholder.meta:
                placeholder.meta["val"] = example
            found.append(example)
        return found

    def _example(self, value: Value) -> Any:
        memory = self._facts.nodes[value[0]].memory
        if value in self._given and self._written.isdisjoint(memory):
            return self._given[value]  # it knows more than a copy: where it comes from
        [example] = fresh_inputs([self._values[value]], self._fake_mode)
        return example

    def run(self, part: CutPart, examples: Sequence[Any]) -> None:
        """Run a part on fakes, and give it its signature."""
        inputs = [self._values[value] for value in part.inputs]
        with self._fake_mode:
            results = _OnFakes(part.module, self._fake_mode).run(*inputs)
        self._signatures.attach(part, examples, inputs, results)
        self._values.update(zip(part.outputs, results, strict=True))
        self._written |= part.writes


class _OnFakes(fx.Interpreter):
    """Runs a graph on fakes, with fakes of what it holds."""

    def __init__(self, graph: fx.GraphModule, fake_mode: FakeTensorMode) -> None:
        super().__init__(graph)
        self._fake_mode = fake_mode

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return as_fake(self._fake_mode, super().get_attr(target, args, kwargs))


def pristine(module: fx.GraphModule) -> fx.GraphModule:
    """A copy of a graph that shares what the graph holds, for when a compiler has changed the one it was given."""
    graph = fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    again = fx.GraphModule(module, graph, class_name=type(module).__name__)
    again.meta.update(module.meta)
    return again
