"""Random operations whose result nobody uses move the generator as in eager, through AOTAutograd as well."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import graphwright
from graphwright import config

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def _strict():
    with config.patch(raise_internal_errors=True):
        yield
    graphwright.reset()


def attention(x):
    q = x.reshape(1, 1, 4, 1)
    return functional.scaled_dot_product_attention(q, q, q, dropout_p=0.5)


def into_a_copy(x):
    copy = x.clone()
    copy[:2].uniform_()


DRAWS = {
    "rand": lambda x: torch.rand(3),
    "randn": lambda x: torch.randn(3),
    "randint": lambda x: torch.randint(0, 9, (3,)),
    "randperm": lambda x: torch.randperm(5),
    "rand_like": torch.rand_like,
    "dropout": lambda x: functional.dropout(x, 0.5),
    "dropout2d": lambda x: functional.dropout2d(x.reshape(1, 4, 1, 1), 0.5),
    "rrelu": lambda x: functional.rrelu(x, training=True),
    "bernoulli": torch.bernoulli,
    "bernoulli_": lambda x: torch.empty(3).bernoulli_(0.5),
    "normal_": lambda x: torch.empty(3).normal_(),
    "exponential_": lambda x: torch.empty(3).exponential_(),
    "multinomial": lambda x: torch.multinomial(torch.ones(3), 2),
    "poisson": torch.poisson,
    "attention": attention,
    "into_a_copy": into_a_copy,
    "used for nothing": lambda x: (torch.rand(4) * x).sum(),
}


def run(fn, x):
    torch.manual_seed(0)
    result = fn(x)
    if x.requires_grad:
        result.sum().backward()
    return result, torch.get_rng_state()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("options", [{}, {"partition": "min_cut"}, {"decompositions": "core"}], ids=str)
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_unused_draw(draw, options, training):
    def f(x):
        draw(x)
        y = functional.dropout(x, 0.3)
        draw(y)
        return y * torch.rand(1)

    compiled = graphwright.compile(f, backend="aot_eager", options=options, fullgraph=True)
    for _ in range(2):
        x = torch.linspace(0.1, 0.9, 4).requires_grad_(training)
        ours = x.detach().clone().requires_grad_(training)
        (want, state), (got, our_state) = run(f, x), run(compiled, ours)
        assert torch.equal(got, want)
        assert torch.equal(our_state, state)
        assert training is False or torch.equal(x.grad, ours.grad)
