"""Decoders compile a fixed number of times, however long the text grows."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers")

from gwshapes.decoders import CACHES, DECODERS, compiled_steps

_QUICK = ("gpt2", "llama")


def check(name: str, cache: str, backend: str, lengths: range) -> None:
    got, want = compiled_steps(name, cache, backend, lengths)
    for length, (ours, theirs) in enumerate(zip(got, want, strict=True), start=1):
        torch.testing.assert_close(ours[0], theirs[0], msg=f"length {length}")
    counts = [count for _, count in got]
    assert counts[0] > 0
    window = DECODERS[name][2].get("sliding_window", len(counts))
    # The model does otherwise while the text grows past its window, as it does when torch.compile captures it.
    for settled in (counts[2 : window - 2], counts[window:]):
        assert settled == settled[:1] * len(settled), f"compiles after each length: {counts}"
    assert counts[-1] <= counts[2] + 3


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("name", _QUICK)
def test_short(name: str, cache: str) -> None:
    check(name, cache, "eager", range(1, 13))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize(
    ("name", "backend"), [*((name, "eager") for name in DECODERS), *((name, "aot_eager") for name in _QUICK)]
)
def test_to_64(name: str, backend: str, cache: str) -> None:
    check(name, cache, backend, range(1, 65))
