"""Random graphs with in-place operations, views, random numbers and switches of state, cut at random, against eager."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import fx

from graphwright_plugins import Capabilities, aot_compile, run_in_eager
from graphwright_plugins.compiling.graph_compiler import pristine
from graphwright_plugins.resolve import resolve_backend
from graphwright_plugins.supports import Unsupported
from graphwright_plugins.testing.program import compile_graph
from graphwright_plugins.torch_compat import set_grad_enabled

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
"""Making a fake of an input that is no leaf looks at it."""


class ByName:
    """Refuses nodes by name; how it compiles, and what it can do, is given."""

    name = "by_name"

    def __init__(self, refused: set[str], compile: Callable[..., Any], capabilities: Capabilities) -> None:
        self.refused, self._compile, self.capabilities = refused, compile, capabilities

    def supports(self, node: fx.Node, options: Any) -> Unsupported | None:
        return Unsupported("refused") if node.name in self.refused else None

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: Any) -> Any:
        return self._compile(graph, example_inputs)


def as_it_is(graph, example_inputs):
    return graph.forward


def through_aot(graph, example_inputs):
    return aot_compile(graph, example_inputs, run_in_eager)


def without_aliases(graph, example_inputs):
    """What a simple device does: every output is memory of its own, and no input is changed."""

    def run(*inputs):
        versions = [x._version for x in inputs if isinstance(x, torch.Tensor)]
        storages = [x.untyped_storage()._cdata for x in inputs if isinstance(x, torch.Tensor)]
        results = graph.forward(*inputs)
        assert versions == [x._version for x in inputs if isinstance(x, torch.Tensor)], "an input was changed"
        del storages
        return [x.clone() if isinstance(x, torch.Tensor) else x for x in results]

    return run


BACKENDS = {
    "as it is": (as_it_is, Capabilities()),
    "through aot": (through_aot, Capabilities()),
    "without aliases": (without_aliases, Capabilities(mutation=False, aliasing=False)),
}


class Writer:
    """Writes a random graph over tensors of 2 x 4."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.graph = fx.Graph()
        self.inputs = [self.graph.placeholder(f"x{i}") for i in range(3)]
        self.full = list(self.inputs)  # of 2 x 4
        self.rows: list[fx.Node] = []  # of 4
        self.grad = True

    def pick(self, *, written: bool = False) -> fx.Node:
        pool = self.full[len(self.inputs) - 1 :] if written and self.draw.random() < 0.6 else self.full
        return self.draw.choice(pool)

    def step(self) -> None:
        call, method, draw = self.graph.call_function, self.graph.call_method, self.draw
        kind = draw.randrange(16)
        a, b = self.pick(), self.pick()
        if kind == 0:
            self.full.append(call(torch.sin, (a,)))
        elif kind == 1:
            self.full.append(call(operator.add, (a, b)))
        elif kind == 2:
            self.full.append(call(torch.mul, (a, b)))
        elif kind == 3:
            self.rows.append(call(operator.getitem, (a, draw.randrange(2))))
        elif kind == 4:
            self.full.append(method(draw.choice(["detach", "contiguous", "clone", "abs"]), (a,)))
        elif kind == 5:
            result = method("add_", (self.pick(written=True), draw.choice([1.5, b])))
            if draw.random() < 0.4:
                self.full.append(result)
        elif kind == 6:
            method("mul_", (self.pick(written=True), 0.5))
        elif kind == 7 and self.rows:
            method("add_", (draw.choice(self.rows), 1))
        elif kind == 8 and self.rows:
            call(operator.setitem, (self.pick(written=True), draw.randrange(2), draw.choice(self.rows)))
        elif kind == 9:
            self.full.append(call(torch.rand_like, (a,)))
        elif kind == 10:
            pair = call(torch.max, (a, 0))
            self.rows.append(call(operator.getitem, (pair, 0)))
        elif kind == 11:
            halves = method("chunk", (a, 2, 1))
            self.full.append(call(torch.cat, (halves, 1)))
        elif kind == 12:
            self.grad = not self.grad
            call(set_grad_enabled, (self.grad,))
        elif kind == 13:
            turned = method("t", (a,))
            self.full.append(
                method("reshape", (turned, 2, 4) if draw.random() < 0.5 else (method("t", (turned,)), 2, 4))
            )
        elif kind == 14:
            self.full.append(call(torch.nn.functional.relu, (a,), {"inplace": draw.random() < 0.3}))
        elif kind == 15 and self.rows:
            self.full.append(call(operator.add, (a, draw.choice(self.rows))))

    def finish(self) -> fx.GraphModule:
        if not self.grad:
            self.graph.call_function(set_grad_enabled, (True,))
        made = [*self.full[len(self.inputs) :], *self.rows]
        self.graph.output(tuple(self.draw.sample(made, min(len(made), 4))) if made else (self.inputs[0],))
        return fx.GraphModule(torch.nn.Module(), self.graph)


def inputs_for(seed: int) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    kinds = random.Random(seed)
    leaves = [torch.randn(2, 4, requires_grad=kinds.random() < 0.4) for _ in range(3)]
    tensors = [leaf * 1 if kinds.random() < 0.5 else leaf for leaf in leaves]
    if kinds.random() < 0.3:
        tensors[1] = tensors[0].view(2, 4)
    return tensors


def outcome(function: Callable[..., Any], inputs: list[torch.Tensor]) -> Any:
    """Results, inputs, which of them share memory, gradients and random state after a call; or that it failed."""
    leaves = [x for x in inputs if x.is_leaf and x.requires_grad]
    torch.manual_seed(7)
    try:
        results = list(function(*inputs))
    except (RuntimeError, NotImplementedError):
        torch.set_grad_enabled(True)
        return None
    everything = [*inputs, *results]
    storages = [x.untyped_storage()._cdata for x in everything]
    shared = [storages.index(key) for key in storages]
    same = [next(i for i, y in enumerate(everything) if y is x) for x in everything]
    needs = [x.requires_grad for x in everything]
    grads: Any = None
    try:
        loss = [x.sum() for x in results if x.requires_grad]
        if loss and leaves:
            found = torch.autograd.grad(sum(loss), leaves, allow_unused=True)
            grads = [torch.zeros_like(leaf) if g is None else g for leaf, g in zip(leaves, found, strict=True)]
    except RuntimeError:
        grads = "failed"
    return [x.detach().clone() for x in everything], shared, same, needs, grads, torch.get_rng_state()


def check(seed: int, backend: str) -> str:
    writer = Writer(seed)
    for _ in range(writer.draw.randrange(3, 14)):
        writer.step()
    module = writer.finish()
    share = writer.draw.random()
    names = [node.name for node in module.graph.nodes if node.op.startswith("call_")]
    refused = {name for name in names if writer.draw.random() < share}
    want = outcome(pristine(module).forward, inputs_for(seed))
    if want is None:
        return "eager fails"
    compile, capabilities = BACKENDS[backend]
    resolved = resolve_backend(ByName(refused, compile, capabilities))
    inputs = inputs_for(seed)
    got = outcome(compile_graph(resolved, module, inputs), inputs)
    assert got is not None, f"fails where eager does not: refused {sorted(refused)}\n{module.graph}"
    text = f"refused {sorted(refused)}\n{module.graph}"
    names = ["values", "memory shared", "the same objects", "requires_grad", "gradients", "random state"]
    for what, ours, theirs in zip(names, got, want, strict=True):
        if what == "gradients" and (isinstance(theirs, str) or isinstance(ours, str)):
            assert ours == theirs or isinstance(theirs, str), f"{what}: {ours} {theirs}\n{text}"
        elif isinstance(theirs, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in theirs):
            for one, other in zip(ours, theirs, strict=True):
                torch.testing.assert_close(one, other, msg=lambda m: f"{what}: {m}\n{text}")
        elif isinstance(theirs, torch.Tensor):
            assert torch.equal(ours, theirs), f"{what}\n{text}"
        else:
            assert ours == theirs, f"{what}: {ours} {theirs}\n{text}"
    return "cut" if refused and len(refused) < len(names) else "whole"


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_graphs_do_in_parts_what_they_do_whole(backend):
    for seed in range(12 if backend == "through aot" else 30):
        check(seed, backend)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", BACKENDS)
def test_many_random_graphs_do_in_parts_what_they_do_whole(backend):
    for seed in range(1000, 5000):
        check(seed, backend)


@pytest.mark.parametrize(
    ("seed", "backend"),
    [
        (766, "as it is"),  # a write to a detached view is not one to its base
        (927, "without aliases"),  # a view under no_grad of memory written with gradients on
        (1649, "through aot"),  # an input that has a history is written to under no_grad, and returned
        (1741, "through aot"),  # a result, and what `contiguous` gives of it: one object
        (2778, "through aot"),  # a write to an input has another one, its view, require a gradient
    ],
)
def test_random_graphs_that_once_went_wrong(seed, backend):
    check(seed, backend)
