"""The backend on a real CUDA device: what the cross-compile harness cannot show."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import graphwright

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU: torch sees no CUDA device"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:TensorFloat32"),  # advice
]

MODES = ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]


class Block(nn.Module):
    """A small transformer block."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Any) -> Any:
        query, key, value = self.mix(self.norm(x)).unflatten(-1, (3, self.heads, -1)).movedim(-3, 0).transpose(-2, -3)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + mixed.transpose(-2, -3).flatten(-2)
        return x + self.feed(x)


@pytest.fixture
def block() -> Block:
    torch.manual_seed(0)
    return Block().to("cuda")


def test_inference_equals_eager(block: Block) -> None:
    x = torch.randn(3, 10, 32, device="cuda")
    compiled = graphwright.compile(block, backend="inductor_gpu", fullgraph=True)
    with torch.no_grad():
        close(compiled(x), block(x))


def test_the_default_backend_is_this_one() -> None:
    shown: list[str] = []
    with graphwright.events.collected(graphwright.events.BackendArtifact) as found:
        close(graphwright.compile(torch.sigmoid)(torch.ones(8, device="cuda")), torch.ones(8, device="cuda").sigmoid())
    shown.extend(event.text for event in found)
    assert any("triton" in text for text in shown)


@pytest.mark.parametrize("mode", MODES)
def test_training_steps_equal_eager(block: Block, mode: str) -> None:
    twin = copy.deepcopy(block)
    compiled = graphwright.compile(twin, backend="inductor_gpu", mode=mode)
    ours, theirs = (torch.optim.SGD(module.parameters(), lr=0.1) for module in (twin, block))
    for step in range(4):  # CUDA graphs are warmed up, recorded, and replayed
        torch.manual_seed(step)
        x = torch.randn(3, 10, 32, device="cuda")
        for module, optimizer in ((compiled, ours), (block, theirs)):
            optimizer.zero_grad()
            module(x).square().mean().backward()
            optimizer.step()
    for mine, other in zip(twin.parameters(), block.parameters(), strict=True):
        close(mine, other)


@pytest.mark.parametrize("mode", MODES)
def test_inference_replays_for_new_values(block: Block, mode: str) -> None:
    compiled = graphwright.compile(block, backend="inductor_gpu", mode=mode)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(3, 10, 32, device="cuda")
            close(compiled(x).clone(), block(x))


def test_sizes_vary(block: Block) -> None:
    compiled = graphwright.compile(block, backend="inductor_gpu", fullgraph=True, dynamic=True)
    with graphwright.events.collected(graphwright.events.BackendArtifact) as found:
        for length in (5, 17, 33, 64):
            x = torch.randn(2, length, 32, device="cuda", requires_grad=True)
            twin = x.detach().clone().requires_grad_()
            compiled(x).sum().backward()
            block(twin).sum().backward()
            close(x.grad, twin.grad)
    assert len([event for event in found if event.name == "forward graph"]) == 1


def test_random_numbers_are_eagers() -> None:
    def draw(x: Any) -> Any:
        return functional.dropout(x, 0.5, training=True) + torch.rand_like(x)

    x = torch.ones(1000, device="cuda")
    compiled = graphwright.compile(draw, backend="inductor_gpu", fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        expected, after = draw(x), torch.rand(2, device="cuda")
        torch.manual_seed(seed)
        close(compiled(x), expected)
        assert torch.equal(torch.rand(2, device="cuda"), after)


def test_both_devices_in_one_graph() -> None:
    def scale(x: Any, factor: Any) -> Any:
        return x * factor, (factor + 1).sum()

    x, factor = torch.randn(8, device="cuda"), torch.tensor(3.0)
    compiled = graphwright.compile(scale, backend="inductor_gpu", fullgraph=True)
    close(compiled(x, factor), scale(x, factor))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(block: Block, dtype: torch.dtype) -> None:
    x = torch.randn(3, 10, 32, device="cuda")
    compiled = graphwright.compile(block, backend="inductor_gpu")
    with torch.no_grad(), torch.autocast("cuda", dtype):
        torch.testing.assert_close(compiled(x), block(x), rtol=2e-2, atol=2e-2)


def close(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
