"""Graphwright's backends in `torch.compile`, found by entry point."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import graphwright

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),  # torch.compile looks
]


def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x @ w).tanh().square().sum()


def check(backend: str, **keywords: Any) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(loss, backend=backend, **keywords)
    for seed in range(2):
        torch.manual_seed(seed)
        x, w = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
        other = w.detach().clone().requires_grad_()
        actual, expected = compiled(x, w), loss(x, other)
        actual.backward()
        expected.backward()
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(w.grad, other.grad)


@pytest.mark.parametrize("name", ["eager", "aot_eager", pytest.param("inductor_gpu", marks=pytest.mark.slow)])
def test_a_backend_of_ours_trains_under_torch_compile(name: str) -> None:
    pytest.importorskip("graphwright_inductor_gpu" if name == "inductor_gpu" else "graphwright_eager")
    assert f"graphwright_{name}" in torch._dynamo.list_backends()
    check(f"graphwright_{name}")


def test_options_reach_it() -> None:
    check("graphwright_aot_eager", options={"partition": "min_cut"})
    with pytest.raises(Exception, match=r"has no option 'partitoin'.*Did you mean 'partition'"):
        check("graphwright_aot_eager", options={"partitoin": "min_cut"})


def made_of_the_size(x: torch.Tensor) -> Any:
    return x.sum(0) * x.shape[0], x.tensor_split(2)[0], x.std(0)


def normalised(x: torch.Tensor) -> Any:
    return torch.softmax(x, 0), F.layer_norm(x, x.shape[1:]), x.flip(0), F.pad(x, (1, 2)), x.view(-1, 2)


def written(x: torch.Tensor) -> Any:
    return x.mul_(2), x[1:] + 1


def scaled(x: torch.Tensor) -> Any:
    return x * (x.shape[0] * 0.1), x.mean()


@pytest.mark.parametrize("program", [made_of_the_size, normalised, written, scaled])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", ["eager", "aot_eager", pytest.param("inductor_gpu", marks=pytest.mark.slow)])
def test_sizes_may_vary(name: str, dynamic: bool | None, program: Any) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(program, backend=f"graphwright_{name}", dynamic=dynamic)
    for size in (4, 8, 2, 6):
        torch.manual_seed(size)
        x = torch.randn(size, 4, dtype=torch.float64)
        ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        actual, expected = compiled(ours * 1), program(theirs * 1)
        torch.testing.assert_close(actual, expected)
        for results in (actual, expected):
            sum((result.sin().sum() for result in results), torch.zeros((), dtype=torch.float64)).backward()
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("name", ["eager", "aot_eager", pytest.param("inductor_gpu", marks=pytest.mark.slow)])
def test_numbers_may_vary(name: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, n: x * n, backend=f"graphwright_{name}", dynamic=True)
    for number in (0.1, 0.7, 3, 5, 0.3):
        x = torch.ones(3, dtype=torch.float64)
        torch.testing.assert_close(compiled(x, number), x * number, rtol=0, atol=0)


def test_every_backend_of_ours_is_offered() -> None:
    ours = {
        entry.name
        for entry in importlib.metadata.entry_points(group="graphwright.backends")
        if entry.dist is not None and entry.dist.name.startswith("graphwright-")
    }
    offered = {entry.name for entry in importlib.metadata.entry_points(group="torch_dynamo_backends")}
    assert {f"graphwright_{name}" for name in ours} <= offered


class SomeLayers(torch.nn.Module):
    """Makes a module when it is called: a slice of a list of modules is another list."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))
        self.count = 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[: self.count]:
            x = layer(x)
        return x


def test_modules_made_after_torch_compile_was_used() -> None:
    """It puts a function of its own around `nn.Module.__init__`, for good."""
    torch.compile(SomeLayers(), backend="eager")(torch.ones(1, 2))
    model, x = SomeLayers(), torch.ones(1, 2)
    assert torch.equal(graphwright.compile(model, backend="eager", fullgraph=True)(x), model(x))
