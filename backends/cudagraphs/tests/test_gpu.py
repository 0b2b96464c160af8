"""The real recorder on a GPU."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from graphwright_cudagraphs import CudaGraphsOptions, cudagraphs
from graphwright_cudagraphs.backend import why_no_cuda
from graphwright_plugins import testing
from graphwright_plugins.testing import trace
from graphwright_plugins.torch_compat import as_fake, new_fake_mode

_MISSING = why_no_cuda()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(_MISSING is not None, reason=_MISSING.reason if _MISSING else ""),
    pytest.mark.filterwarnings("ignore::graphwright_cudagraphs.CudaGraphsWarning"),
]


@pytest.fixture
def backend() -> str:
    return "cudagraphs"


class TestForward(testing.ForwardTests):
    """See the base class."""

    device = "cuda"


class TestTraining(testing.TrainingTests):
    """See the base class."""

    device = "cuda"


class TestMutation(testing.MutationTests):
    """See the base class."""

    device = "cuda"


class TestAliasing(testing.AliasingTests):
    """See the base class."""

    device = "cuda"


class TestDynamicShapes(testing.DynamicShapeTests):
    """See the base class."""

    device = "cuda"


class TestRandom(testing.RandomTests):
    """See the base class."""

    device = "cuda"


def network(x: Any, first: Any, second: Any) -> tuple[Any, ...]:
    hidden = functional.dropout(functional.gelu(x @ first), 0.2, training=True)
    return (hidden @ second, hidden.square().mean())


def weights() -> tuple[nn.Parameter, nn.Parameter]:
    return nn.Parameter(torch.randn(64, 128, device="cuda")), nn.Parameter(torch.randn(128, 32, device="cuda"))


def compiled(function: Any, *inputs: Any, **options: Any) -> Any:
    mode = new_fake_mode()
    fakes = [as_fake(mode, value) for value in inputs]
    return cudagraphs.compile(trace(function), fakes, CudaGraphsOptions(**options))


def test_training_equals_eager_over_many_steps() -> None:
    x, (first, second) = torch.randn(16, 64, device="cuda"), weights()
    graph = compiled(network, x, first, second)
    for seed in range(8):
        x = torch.randn(16, 64, device="cuda")
        gradients = []
        for function in (graph, network):
            torch.manual_seed(seed)
            loss = sum(output.square().sum() for output in function(x, first, second))
            gradients.append(torch.autograd.grad(loss, [first, second]))
            del loss
        torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-2)
        with torch.no_grad():
            first.add_(0.01)
    assert graph.recordings == {"forward graph": 1, "backward graph": 1}
    assert graph.notices == ()


def test_memory_comes_back_after_close() -> None:
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    x = torch.randn(1024, 1024, device="cuda")
    graph = compiled(lambda x: ((x @ x).relu(), x.sin().cos()), x)
    for _ in range(3):
        graph(x)
    assert graph.recordings == {"inference graph": 1}
    during = torch.cuda.memory_allocated()
    graph.close()
    del x
    gc.collect()
    torch.cuda.empty_cache()
    assert during - before > 3 * 4 * 1024 * 1024
    # cuBLAS keeps a workspace for the stream of the recordings.
    assert torch.cuda.memory_allocated() - before < 64 * 1024 * 1024


def test_replays_on_several_streams_and_threads_do_not_meet() -> None:
    graph = compiled(lambda x: ((x @ x).softmax(-1) @ x,), torch.randn(256, 256, device="cuda"))
    wrong: list[int] = []

    def work(seed: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            generator = torch.Generator("cuda").manual_seed(seed)
            for _ in range(50):
                x = torch.randn(256, 256, device="cuda", generator=generator)
                if not torch.allclose(graph(x)[0], (x @ x).softmax(-1) @ x, rtol=1e-3, atol=1e-3):
                    wrong.append(seed)
            torch.cuda.current_stream().synchronize()

    for _ in range(2):
        graph(torch.randn(256, 256, device="cuda"))
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
