"""Time per call of models of realistic width, compiled by Graphwright's `inductor_gpu` and by torch.compile's Inductor.

    python benchmarks/steady_state.py [--models NAME ...] [--rounds N] [--device cpu]

Both compile the same model object; then calls are timed in turn, and the table gives the median of each and their
ratio (below 1: Graphwright is faster). Compiling costs up to a minute for each model and side.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import nn

import graphwright

WIDTH, LAYERS, HEADS, LENGTH, VOCABULARY = 768, 2, 12, 64, 1000


@dataclass(frozen=True)
class Case:
    """A model and the inputs of its call."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], dict[str, Any]]


def tokens(batch: int = 2) -> dict[str, Any]:
    """Token ids of shape (batch, LENGTH)."""
    return {"input_ids": torch.randint(0, VOCABULARY, (batch, LENGTH))}


def pixels(size: int) -> dict[str, Any]:
    """An image batch of shape (1, 3, size, size)."""
    return {"pixel_values": torch.randn(1, 3, size, size)}


def decoder(config_class: type, model_class: type, **more: Any) -> Case:
    """A decoder of transformers without a cache."""
    config = config_class(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=256,
        use_cache=False,
        **more,
    )
    return Case(lambda: model_class(config), tokens)


def encoder_block() -> nn.Module:
    """Torch's own transformer encoder."""
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True, activation="gelu", norm_first=True)
    return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)


def perceptron() -> nn.Module:
    """Linear layers with activations between."""
    layers = [part for _ in range(4) for part in (nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU())]
    return nn.Sequential(*layers)


def convolutions() -> nn.Module:
    """Convolutions with batch norm, in evaluation."""
    layers = [nn.Conv2d(3, 64, 3, padding=1)]
    for _ in range(4):
        layers += [nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1)]  # type: ignore[list-item]
    return nn.Sequential(*layers)


def gpt2() -> Case:
    """GPT-2, whose configuration has names of its own."""
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=256, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, use_cache=False
    )
    return Case(lambda: transformers.GPT2LMHeadModel(config), tokens)


def cases() -> dict[str, Case]:
    """All models by name."""
    t = transformers
    return {
        "bert": decoder(t.BertConfig, t.BertModel),
        "distilbert": Case(
            lambda: t.DistilBertModel(
                t.DistilBertConfig(
                    vocab_size=VOCABULARY, dim=WIDTH, n_layers=LAYERS, n_heads=HEADS, hidden_dim=4 * WIDTH
                )
            ),
            tokens,
        ),
        "gpt2": gpt2(),
        "llama": decoder(t.LlamaConfig, t.LlamaForCausalLM),
        "qwen2": decoder(t.Qwen2Config, t.Qwen2ForCausalLM, num_key_value_heads=HEADS),
        "gpt_neox": decoder(t.GPTNeoXConfig, t.GPTNeoXForCausalLM),
        "vit": Case(
            lambda: t.ViTModel(
                t.ViTConfig(hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, image_size=128)
            ),
            lambda: pixels(128),
        ),
        "encoder": Case(encoder_block, lambda: {"src": torch.randn(2, LENGTH, WIDTH)}),
        "perceptron": Case(perceptron, lambda: {"input": torch.randn(32, WIDTH)}),
        "convolutions": Case(convolutions, lambda: {"input": torch.randn(1, 3, 64, 64)}),
    }


def timed(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def compare(case: Case, rounds: int, device: str) -> tuple[float, float]:
    """Median seconds per call: Graphwright's, torch.compile's."""
    torch.manual_seed(0)
    model = case.make().eval().to(device)
    inputs = {name: value.to(device) for name, value in case.inputs().items()}
    torch.compiler.reset()
    graphwright.reset()
    ours = graphwright.compile(model, backend="inductor_gpu", fullgraph=True)
    theirs = torch.compile(model, backend="inductor", fullgraph=True)
    times: tuple[list[float], list[float]] = ([], [])
    with torch.no_grad():
        for call in (ours, theirs):
            for _ in range(5):
                call(**inputs)
        for number in range(rounds):
            pair = ((ours, times[0]), (theirs, times[1]))
            for call, taken in pair if number % 2 else reversed(pair):
                taken.append(timed(lambda call=call: call(**inputs)))  # type: ignore[misc]
    return statistics.median(times[0]), statistics.median(times[1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    available = cases()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=tuple(available), default=tuple(available))
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args(arguments)
    ratios = []
    print(f"{'model':14} graphwright ms  torch.compile ms  ratio", flush=True)
    for name in chosen.models:
        ours, theirs = compare(available[name], chosen.rounds, chosen.device)
        ratios.append(ours / theirs)
        print(f"{name:14} {ours * 1e3:14.3f}  {theirs * 1e3:16.3f}  {ours / theirs:5.3f}", flush=True)
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"geometric mean of the ratios {mean:.3f}, largest {max(ratios):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
