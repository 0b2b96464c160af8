"""Saving what Inductor compiled and loading it: each test that compiles has one small kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor import config
from torch.nn import functional

from graphwright_inductor_gpu import InductorOptions, inductor_gpu, lowering
from graphwright_inductor_gpu.artifacts import key_parts
from graphwright_plugins import (
    ArtifactSettings,
    NotCacheable,
    listen_to_cache,
    resolve_backend,
    using_artifact_settings,
)
from graphwright_plugins.testing import Program, compile_program, trace
from graphwright_plugins.torch_compat import as_symbolic, new_fake_mode, tracing_context

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")


def both(x, w, counter):  # without annotations: tracing puts them into the graph, and torch's writer stumbles over them
    functional.relu(counter, inplace=True)
    return (torch.tanh(x * w), 3, x)


PROGRAM = Program("both", both, lambda: (torch.randn(4), torch.randn(4, requires_grad=True), -torch.ones(2)))


def test_what_was_saved_trains_and_changes_inputs_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    end = listen_to_cache(lambda outcome: told.append(outcome.result))
    with using_artifact_settings(ArtifactSettings("on", tmp_path / "store")):
        first = compile_program(resolve_backend("inductor_gpu"), PROGRAM, PROGRAM.inputs())
        monkeypatch.setattr(lowering, "compile_fx", None)
        loaded = compile_program(resolve_backend("inductor_gpu"), PROGRAM, PROGRAM.inputs())
    end()
    assert told == ["miss", "saved", "hit"]
    expected_inputs = PROGRAM.inputs()
    expected = both(*expected_inputs)
    expected[0].sum().backward()
    for compiled in (first, loaded):
        inputs = PROGRAM.inputs()
        actual = compiled(*inputs)
        actual[0].sum().backward()
        torch.testing.assert_close(actual[0], expected[0])
        torch.testing.assert_close(inputs[1].grad, expected_inputs[1].grad)
        assert (actual[1], actual[2] is inputs[0], inputs[2].tolist()) == (3, True, [0, 0])


def test_a_function_that_was_not_to_be_saved_is_refused() -> None:
    with pytest.raises(NotCacheable, match="not compiled to be saved"):
        inductor_gpu.save(lambda x: (x,))


def test_the_key_follows_options_and_settings() -> None:
    base = key_parts(InductorOptions())
    assert key_parts(InductorOptions()) == base
    assert key_parts(InductorOptions(max_autotune=True)) != base
    with config.patch(max_fusion_size=7):
        assert key_parts(InductorOptions()) != base
    assert {"compiler", "torch_sources", "vector_instructions", "gpu"} <= base.keys()


def test_what_lives_in_one_process_is_not_kept() -> None:
    with pytest.raises(NotCacheable, match="CUDA graphs"):
        key_parts(InductorOptions(cudagraphs=True))
    with (
        config.patch(post_grad_custom_post_pass=lambda graph: None),
        pytest.raises(NotCacheable, match="'post_grad_custom_post_pass' is a function"),
    ):
        key_parts(InductorOptions())


@pytest.mark.parametrize("backend", ["inductor_gpu", "inductor"])
def test_torchs_caches_of_graphs_forget_what_was_assumed_of_sizes_and_are_not_asked(backend: str) -> None:
    mode = new_fake_mode()
    example = as_symbolic(mode, torch.randn(8, 3), [0])
    counters.clear()
    with tracing_context(mode):
        for _ in range(2):
            compiled = resolve_backend(backend).compile(trace(lambda x: (x * 2,)), [example])
    assert counters["aot_autograd"]["autograd_cache_hit"] == 0
    assert counters["inductor"]["fxgraph_cache_hit"] == 0
    torch.testing.assert_close(compiled(torch.ones(5, 3))[0], torch.full((5, 3), 2.0))


def test_close_without_cuda_graphs_does_nothing() -> None:
    inductor_gpu.close()
    inductor_gpu.close()
