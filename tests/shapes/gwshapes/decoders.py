"""Hugging Face decoders over growing sequences: whole texts without a cache, and step by step with either cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers

import graphwright

_SMALL = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 37, "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_GPT2 = {
    "vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_NEOX = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
    "max_position_embeddings": 128,
}  # fmt: skip
DECODERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", _GPT2),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", _NEOX),
    "llama": ("LlamaForCausalLM", "LlamaConfig", _SMALL),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**_SMALL, "sliding_window": 8}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", _SMALL),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**_SMALL, "head_dim": 8}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**_SMALL, "head_dim": 8, "sliding_window": 8}),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**_SMALL, "head_dim": 8, "sliding_window": 8}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", _SMALL),
}
"""Class, configuration class and configuration of each model."""
CACHES = ("none", "dynamic", "static")


def make_decoder(name: str) -> torch.nn.Module:
    """A small model with fixed weights, in eval mode."""
    model_class, config_class, settings = DECODERS[name]
    torch.manual_seed(0)
    model: torch.nn.Module = getattr(transformers, model_class)(getattr(transformers, config_class)(**settings)).eval()
    return model


def _cache(model: Any, kind: str) -> Any:
    if kind == "static":
        return transformers.StaticCache(config=model.config, max_cache_len=80)
    return transformers.DynamicCache(config=model.config)


Steps = list[tuple[torch.Tensor, int]]
"""The logits of each call, and the graphs compiled by then."""


def run(model: Any, call: Callable[..., Any], cache: str, lengths: range, compiles: Callable[[], int]) -> Steps:
    """The logits for growing sequences.

    Args:
        model: says what cache fits.
        call: the model, or the model compiled.
        cache: ``none`` computes each sequence anew; the others add one token a call.
        lengths: of the sequences.
        compiles: tells how many graphs have been compiled.
    """
    torch.manual_seed(1)
    ids = torch.randint(3, 99, (2, max(lengths)))
    state = None if cache == "none" else _cache(model, cache)
    steps: Steps = []
    with torch.no_grad():
        for length in lengths:
            if state is None:
                out = call(ids[:, :length].clone(), use_cache=False)
            else:
                out = call(ids[:, length - 1 : length].clone(), past_key_values=state, use_cache=True)
            steps.append((out.logits, compiles()))
    return steps


def compiled_steps(name: str, cache: str, backend: str, lengths: range) -> tuple[Steps, Steps]:
    """Growing sequences in eager, and compiled."""
    graphwright.reset()  # models of one class share entries
    model = make_decoder(name)
    want = run(model, model, cache, lengths, lambda: 0)
    with graphwright.events.collected(graphwright.events.GraphCompiled) as compiled:
        got = run(model, graphwright.compile(model, backend=backend), cache, lengths, lambda: len(compiled))
    return got, want
