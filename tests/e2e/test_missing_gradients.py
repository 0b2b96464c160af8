"""What has no gradient in eager has none compiled, whichever results a backward pass begins at."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest
import torch
from torch import nn

import graphwright

pytestmark = pytest.mark.e2e
BACKENDS = ["eager", "aot_eager"]


@pytest.fixture(autouse=True)
def _empty_cache():
    yield
    graphwright.reset()


class Heads(nn.Module):
    """Three parts, two of which share the third; a view of what is between them; a result without gradients."""

    def __init__(self):
        super().__init__()
        self.trunk, self.left, self.right = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x):
        h = self.trunk(x)
        return self.left(h), self.right(h), h.view(-1), h.argmax()


class Writing(Heads):
    """Writes to a buffer, and to an input that has a history."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.seen.add_(x.detach().sum(0))
        x.mul_(2)
        return self.left(x), self.right(x), x, self.trunk(self.seen)


class Broken(Heads):
    """The results of one graph are inputs of the next, and results of the function."""

    def forward(self, x):
        h, other = self.trunk(x), self.left(x)
        graphwright.graph_break()
        return h, other, self.right(h), other[0]


def gradients(model, call, which):
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    model.zero_grad(set_to_none=True)
    results = call(x * 1)
    sum(results[i].sum() for i in which).backward()
    return {name: p.grad for name, p in [*model.named_parameters(), ("x", torch.nn.Parameter(x))]} | {"x": x.grad}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [Heads, Writing, Broken])
def test_results_that_take_part(kind, backend):
    torch.manual_seed(0)
    model = kind()
    compiled = graphwright.compile(model, backend=backend)
    for _ in range(2):
        for which in itertools.chain.from_iterable(itertools.combinations(range(3), n) for n in (1, 2, 3)):
            got, want = gradients(model, compiled, which), gradients(model, model, which)
            for name, gradient in want.items():
                assert (got[name] is None) == (gradient is None), (name, which)
                if gradient is not None:
                    torch.testing.assert_close(got[name], gradient)


@pytest.mark.parametrize("backend", BACKENDS)
def test_weight_decay_leaves_what_took_no_part(backend):
    torch.manual_seed(0)
    model = Heads()
    before = model.right.weight.detach().clone()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    graphwright.compile(model, backend=backend)(torch.ones(2, 3))[0].sum().backward()
    optimizer.step()
    assert torch.equal(model.right.weight, before)
    assert model.right.weight not in optimizer.state


def test_a_graph_of_gradients_is_freed():
    model = Heads()
    compiled = graphwright.compile(model, backend="aot_eager")
    compiled(torch.ones(2, 3))
    gc.collect()
    gc.disable()
    try:
        x = torch.ones(2, 3)
        results = compiled(x)
        gone = [weakref.ref(x), weakref.ref(results[0])]
        results[0].sum().backward()
        del x, results
        assert [reference() for reference in gone] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_get_gradients(backend):
    """Eager does not call the hook of what is not asked for; compiled, it is given zeros, and never `None`."""
    model = Heads()
    seen = {"left": [], "right": []}
    model.left.weight.register_hook(lambda gradient: seen["left"].append(gradient.sum().item()))
    model.right.weight.register_hook(lambda gradient: seen["right"].append(gradient.sum().item()))
    for call in (model, graphwright.compile(model, backend=backend)):
        call(torch.ones(2, 3))[0].sum().backward()
    assert seen["left"][1] == pytest.approx(seen["left"][0])
    assert seen["right"] == ([] if backend == "eager" else [0.0])
