"""Whole functions on the backend `inductor_gpu` against eager; few kernels for each test, since they cost seconds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import graphwright
from graphwright import events
from graphwright.likeness import Likeness

pytest.importorskip("graphwright_inductor_gpu")
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]

CLOSE = Likeness(rtol=1e-5, atol=1e-5)


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def compiled(fn: Any, **arguments: Any) -> Any:
    return graphwright.compile(fn, backend="inductor_gpu", fullgraph=True, **arguments)


def assert_same(actual: Any, expected: Any) -> None:
    difference = CLOSE.difference(actual, expected, "result")
    assert difference is None, difference


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))


def check_training(model: nn.Module, other: nn.Module, graphs: int) -> None:
    """Train a model at lengths 2 to 5, compiled and in eager."""
    other.load_state_dict(model.state_dict())
    ours = compiled(model)
    with events.collected(events.GraphCompiled) as found:
        for length in range(2, 6):
            x = rand(2, length, 8, seed=length)
            actual, expected = ours(x), other(x)
            assert_same(actual, expected)
            actual.square().sum().backward()
            expected.square().sum().backward()
    assert len(found) == graphs
    assert_same([p.grad for p in model.parameters()], [p.grad for p in other.parameters()])


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 4), nn.GELU(), nn.Linear(4, 8))


@pytest.mark.timeout(300)  # the first graph of a process pays for Inductor's set-up
def test_training_at_growing_lengths() -> None:
    check_training(perceptron(), perceptron(), graphs=2)


@pytest.mark.slow
def test_training_of_an_attention_block_at_growing_lengths() -> None:
    check_training(Attention(), Attention(), graphs=2)


def test_it_is_the_default_and_shows_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).sum(-1)

    with graphwright.config.patch(logs="output_code"), events.collected(events.BackendUsed) as used:
        ours = graphwright.compile(fn)
        assert_same(ours(rand(3, 4)), fn(rand(3, 4)))
    assert [event.backend for event in used] == ["inductor_gpu"]
    error = capsys.readouterr().err
    # Inductor keeps what it made on disk: whoever ran this before on the same machine finds it there.
    assert re.search(r"\[graphwright output_code\] (forward graph|graph from the cache)", error)
    assert "def call(" in error


def test_writes_to_inputs_and_views_of_them() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.mul_(2).add_(y)
        y[0].zero_()
        return x, x.t(), y[1:], (x + y).view(-1)

    ours = compiled(fn)
    for seed in range(2):
        mine, theirs = (
            (rand(3, 3, seed=seed), rand(3, 3, seed=seed + 5)),
            (rand(3, 3, seed=seed), rand(3, 3, seed=seed + 5)),
        )
        actual, expected = ours(*mine), fn(*theirs)
        assert_same((actual, mine), (expected, theirs))
        assert actual[0] is mine[0]


def test_dropout_draws_as_eager_does() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.5) * F.dropout(x + 1, 0.1)

    ours, x = compiled(fn), rand(4, 8)
    for seed in range(2):
        torch.manual_seed(seed)
        expected, after = fn(x), torch.rand(1)
        torch.manual_seed(seed)
        assert_same(ours(x), expected)
        assert torch.equal(torch.rand(1), after)


def test_floats_that_vary_need_one_kernel() -> None:
    def fn(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor + factor / 2

    ours, x = compiled(fn), rand(3, 4)
    with events.collected(events.GraphCompiled) as graphs:
        for factor in (0.5, 0.7, -3.25, 1e-30, 7e12):
            assert_same(ours(x, factor), fn(x, factor))
    assert len(graphs) == 2


def test_a_float_that_decides_is_fixed() -> None:
    def fn(x: torch.Tensor, p: float) -> torch.Tensor:
        return F.dropout(x, p)

    ours, x = compiled(fn), rand(4, 8)
    for p in (0.5, 0.7, 0.25):
        torch.manual_seed(0)
        expected = fn(x, p)
        torch.manual_seed(0)
        assert_same(ours(x, p), expected)


def test_an_index_out_of_range_is_told_as_in_eager() -> None:
    def fn(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[index] * 2

    ours, x = compiled(fn), rand(3)
    assert_same(ours(x, torch.tensor([0, 2])), fn(x, torch.tensor([0, 2])))
    with pytest.raises(IndexError):
        ours(x, torch.tensor([0, 9]))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes(mode: str) -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w)

    ours = compiled(fn, mode=mode)
    for seed in range(2):
        x, w = rand(4, 8, seed=seed), rand(8, 4, seed=seed)
        assert_same(ours(x, w), fn(x, w))


def nothing_left_to_eager(model: Any, other: Any, *calls: tuple[Any, ...]) -> None:
    ours = compiled(model)
    with events.collected(events.GraphLeftToEager) as left:
        for arguments in calls:
            torch.manual_seed(1)
            actual = ours(*arguments)
            torch.manual_seed(1)
            expected = other(*arguments)
            assert_same(actual, expected)
            actual.square().sum().backward()
            expected.square().sum().backward()
    assert not left


def test_batch_norm_of_batches_of_any_size() -> None:
    model, other = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    nothing_left_to_eager(model, other, *((rand(n, 4, seed=n),) for n in (5, 6, 7)))
    assert_same(dict(model.state_dict()), dict(other.state_dict()))


def test_batch_norm_beside_a_float_that_varies() -> None:
    model, other = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    calls = [(rand(n, 4, seed=n), 1 / n) for n in (5, 6, 7)]
    nothing_left_to_eager(lambda x, s: model(x) * s, lambda x, s: other(x) * s, *calls)


def test_operators_that_inductor_has_no_kernel_for() -> None:
    def solve(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x @ x.T + torch.eye(3))

    x = rand(3, 3).requires_grad_()
    nothing_left_to_eager(solve, solve, (x,))


def test_checkpoint_with_dropout() -> None:
    def block(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda a: F.dropout((a @ w).sin(), 0.5), x, use_reentrant=False)

    nothing_left_to_eager(block, block, (rand(3, 4).requires_grad_(), rand(4, 4, seed=1).requires_grad_()))


def test_floats_that_vary_keep_their_precision_beside_another_backend() -> None:
    def scale(x: torch.Tensor, s: float) -> torch.Tensor:
        return x * s

    for backend in ("aot_eager", "inductor_gpu", "aot_eager", "inductor_gpu"):
        graphwright.reset()
        ours = graphwright.compile(scale, backend=backend)
        for s in (0.5, 0.25, 0.1, 0.7):
            x = torch.ones(5, dtype=torch.float64)
            assert torch.equal(ours(x, s), x * s), (backend, s)


NEGATIVE = torch.tensor([1 + 2j, 3 - 4j]).conj().imag  # has the negative bit


@pytest.mark.parametrize(
    ("fn", "x"),
    [
        (lambda x: x.min(), torch.arange(5, 50, dtype=torch.int8)),
        (lambda x: torch.amin(x + 1), torch.arange(5, 50, dtype=torch.uint8)),
        (lambda x: tuple(x.aminmax()), torch.arange(5, 50, dtype=torch.uint8)),
        (lambda x: x.any(), torch.arange(5, dtype=torch.uint8)),
        (lambda x: x * 2, NEGATIVE),
    ],
)
def test_what_inductor_does_otherwise_is_left_to_eager(fn: Any, x: torch.Tensor) -> None:
    with events.collected(events.GraphLeftToEager) as left:
        assert_same(compiled(fn)(x), fn(x))
    (event,) = left
    assert "Inductor can't do this graph as eager does: its " in str(event.error)


def test_what_eager_refuses_is_refused() -> None:
    with pytest.raises(RuntimeError, match="does not support bool input"):
        compiled(lambda x: x.argmax())(torch.tensor([True, False]))


def test_an_input_with_the_negative_bit_after_one_without() -> None:
    ours = compiled(lambda x: x + 1)
    for x in (torch.ones(2), NEGATIVE, torch.ones(2)):
        assert_same(ours(x), x + 1)


FORKS = """
import os, warnings
import torch, graphwright
warnings.simplefilter("ignore")
graphwright.compile(lambda x: x * 3 - 1, backend="inductor_gpu")(torch.ones(3))
child = os.fork()
if child == 0:
    x = torch.zeros(9)
    result = graphwright.compile(lambda x: x * 5 + x.exp(), backend="inductor_gpu")(x)
    os._exit(0 if torch.equal(result, x * 5 + x.exp()) else 1)
print("status", os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_compiles_too(tmp_path: Path) -> None:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "TORCHINDUCTOR_COMPILE_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", FORKS], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.strip() == "status 0", done.stderr
