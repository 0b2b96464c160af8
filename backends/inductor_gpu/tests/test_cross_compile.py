"""Kernels for GPUs, made and checked without one: graph by graph, captured by Graphwright, against eager."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch.nn import functional

if torch.cuda.is_available():
    pytest.skip("the cross-compile harness stands in for a GPU, and here is one", allow_module_level=True)
triton = pytest.importorskip("triton", "3.9", reason="the cross-compile harness needs the package `triton`, 3.9")

# ruff: noqa: E402  what follows cannot be imported without triton
import graphwright
from graphwright_inductor_gpu.options import InductorOptions
from graphwright_inductor_gpu.testing import TARGETS, HarnessError, Session, cross_compiling
from graphwright_plugins.testing import trace

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:TensorFloat32"),  # advice about the GPU that there seems to be
]


def pointwise(x: Any, y: Any) -> Any:
    return torch.relu(x * 2 + y).sigmoid() * torch.tanh(y) + torch.erf(x) + x.expm1()


def reductions(x: Any) -> Any:
    return x.sum(-1), x.mean(0), x.amax(1), x.argmax(-1), x.var(-1)


def softmaxes(x: Any) -> Any:
    return functional.softmax(x, -1), functional.log_softmax(x, 0)


def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    return functional.layer_norm(x, (x.shape[-1],), weight, bias)


def rms_norm(x: Any, weight: Any) -> Any:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def rope(query: Any, cos: Any, sin: Any) -> Any:
    half = query.shape[-1] // 2
    return query * cos + torch.cat((-query[..., half:], query[..., :half]), -1) * sin


def cross_entropy(logits: Any, target: Any) -> Any:
    return functional.cross_entropy(logits, target)


def causal_attention(query: Any, key: Any, value: Any) -> Any:
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
    return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ value


def fused_attention(query: Any, key: Any, value: Any) -> Any:
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def mlp(x: Any, up: Any, down: Any) -> Any:
    return functional.gelu(x @ up) @ down


def embedding_bag(ids: Any, table: Any) -> Any:
    return functional.embedding(ids, table).sum(1)


def batch_norm(x: Any, weight: Any, bias: Any) -> Any:
    return functional.batch_norm(x, None, None, weight, bias, training=True)


def integers(x: Any, y: Any) -> Any:
    return x // y, x % y, x & y, (x > y).sum()


def scatter(x: Any, places: Any) -> Any:
    return x.gather(1, places), torch.zeros_like(x).scatter_add(1, places, x)


def scan(x: Any) -> Any:
    return x.cumsum(-1)


def in_place(x: Any, y: Any) -> Any:
    x.add_(y)
    return x * 2


def dropout(x: Any) -> Any:
    return functional.dropout(x, 0.5, training=True) + torch.rand_like(x)


def low_precision(x: Any, y: Any) -> Any:
    return (x * y).softmax(-1), x.float().exp()


class Case(NamedTuple):
    function: Callable[..., Any]
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    tolerance: float = 1e-5


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype)


CASES = {
    case.function.__name__: case
    for case in (
        Case(pointwise, lambda: (normal(7, 9), normal(7, 9))),
        Case(reductions, lambda: (normal(5, 19),)),
        Case(softmaxes, lambda: (normal(5, 37),)),
        Case(layer_norm, lambda: (normal(6, 24), normal(24), normal(24))),
        Case(rms_norm, lambda: (normal(2, 3, 32), normal(32))),
        Case(rope, lambda: (normal(2, 3, 5, 8), normal(5, 8), normal(5, 8))),
        Case(cross_entropy, lambda: (normal(9, 17), torch.randint(0, 17, (9,)))),
        Case(causal_attention, lambda: (normal(2, 2, 6, 8), normal(2, 2, 6, 8), normal(2, 2, 6, 8))),
        Case(fused_attention, lambda: (normal(2, 2, 6, 8), normal(2, 2, 6, 8), normal(2, 2, 6, 8))),
        Case(mlp, lambda: (normal(5, 8), normal(8, 16), normal(16, 8))),
        Case(embedding_bag, lambda: (torch.randint(0, 10, (3, 4)), normal(10, 6))),
        Case(batch_norm, lambda: (normal(4, 3, 5, 5), normal(3), normal(3))),
        Case(integers, lambda: (torch.randint(-20, 20, (30,)), torch.randint(1, 9, (30,)))),
        Case(scatter, lambda: (normal(4, 6), torch.randint(0, 6, (4, 6)))),
        Case(scan, lambda: (normal(3, 19),)),
        Case(in_place, lambda: (normal(6), normal(6))),
        Case(dropout, lambda: (normal(32),)),
        Case(low_precision, lambda: (normal(4, 8, dtype=torch.bfloat16), normal(4, 8, dtype=torch.bfloat16)), 2e-2),
    )
}


@pytest.mark.parametrize("name", CASES)
def test_inference_on_hopper(name: str) -> None:
    check(CASES[name], "sm_90")


@pytest.mark.parametrize("target", ["sm_80", "sm_100"])
@pytest.mark.parametrize("name", ["pointwise", "softmaxes", "rms_norm"])
def test_inference_elsewhere(name: str, target: str) -> None:
    check(CASES[name], target)


@pytest.mark.parametrize("name", ["pointwise", "layer_norm", "cross_entropy", "causal_attention", "mlp"])
def test_training(name: str) -> None:
    check(CASES[name], "sm_90", gradients=True)


def test_sizes_vary_under_the_same_kernels() -> None:
    with cross_compiling("sm_90") as session:
        compiled = graphwright.compile(softmaxes, backend=session.compile, fullgraph=True, dynamic=True)
        for rows, columns in ((3, 7), (5, 20), (20, 3)):
            x = normal(rows, columns)
            torch.testing.assert_close(compiled(x), softmaxes(x))
        assert all("ks0" in kernel.signature for kernel in session.kernels)
        launches = [grid for kernel in session.kernels for grid in kernel.launches]
        make_cubins(session)
    assert len(launches) == 3 * len(session.kernels)
    assert len(set(launches)) > 1


def test_every_configuration_of_a_kernel_compiles() -> None:
    with cross_compiling("sm_90") as session:
        options = InductorOptions(max_autotune=True)
        session.compile(trace(lambda x: (x.sum(-1),)), [normal(64, 3000)], options)
        (kernel,) = session.kernels
        cubins = [kernel.cubin(choice) for choice in kernel.choices]
    assert len(cubins) > 1
    assert {cubin.arch for cubin in cubins} == {90}


def test_targets_differ() -> None:
    seen = {}
    for name in TARGETS:
        with cross_compiling(name) as session:
            session.compile(trace(lambda x: (x.exp(),)), [normal(8)])
            seen[name] = session.kernels[0].cubin()
    assert {name: cubin.arch for name, cubin in seen.items()} == {"sm_80": 80, "sm_90": 90, "sm_100": 100}
    assert len({cubin.data for cubin in seen.values()}) == 3


def test_nothing_is_left_behind() -> None:
    check(CASES["softmaxes"], "sm_90")  # what is imported late is imported now
    before = state()
    check(CASES["softmaxes"], "sm_100", gradients=True)
    assert state() == before
    with pytest.raises(KeyError), cross_compiling("sm_90"):
        raise KeyError
    assert state() == before
    x = normal(5, 37)
    torch.testing.assert_close(graphwright.compile(softmaxes, backend="inductor_gpu")(x), softmaxes(x))


def test_a_failing_kernel_is_not_hidden_by_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("graphwright_inductor_gpu.testing.kernel.run_interpreted", fail)
    with pytest.raises(HarnessError, match="1 call") as caught, cross_compiling() as session:
        graphwright.compile(pointwise, backend=session.compile)(normal(3), normal(3))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_wrong_kernel_is_seen() -> None:
    with cross_compiling() as session:
        compiled = session.compile(trace(lambda x: (x + 1,)), [normal(8)])
        (kernel,) = session.kernels
        kernel._autotuner.configs[0].kwargs["XBLOCK"] = 4
        x = normal(8)
        torch.testing.assert_close(compiled(x)[0], x + 1)
        assert kernel.launches == [(2, 1, 1)]
        kernel._autotuner.inductor_meta["grid_type"] = "FixedGrid"
        kernel._autotuner.inductor_meta["fixed_grid"] = ("1", "1", "1")
        with pytest.raises(AssertionError):
            torch.testing.assert_close(compiled(x)[0], x + 1)


def test_what_cannot_be_moved_is_refused() -> None:
    base = normal(6)
    with cross_compiling() as session:
        with pytest.raises(HarnessError, match="share memory"):
            session.compile(trace(lambda x, y: (x + y,)), [base[:3], base[3:]])
        with pytest.raises(HarnessError, match="the graph holds tensors, t,"):
            session.compile(trace(Holder()), [normal(6)])


class Holder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("t", normal(6))

    def forward(self, x: Any) -> Any:
        return (x + self.t,)


def check(case: Case, target: str, gradients: bool = False) -> None:
    """Compile a case, make its binaries, and compare what it does with eager."""
    torch.manual_seed(0)
    ours = [value.requires_grad_(gradients and value.is_floating_point()) for value in case.inputs()]
    theirs = [value.detach().clone().requires_grad_(value.requires_grad) for value in ours]
    with cross_compiling(target) as session:
        compiled = graphwright.compile(case.function, backend=session.compile, fullgraph=True)
        results = run(compiled, ours), run(case.function, theirs)
        assert session.kernels
        assert all(kernel.launches for kernel in session.kernels)
        make_cubins(session)
    torch.testing.assert_close(*results, rtol=case.tolerance, atol=case.tolerance)
    torch.testing.assert_close(ours, theirs)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-5)


def run(function: Callable[..., Any], inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    result = function(*inputs)
    results = result if isinstance(result, tuple) else (result,)
    if any(value.requires_grad for value in inputs):
        torch.autograd.backward([(value.square() + value).sum() for value in results])
    return results


def make_cubins(session: Session) -> None:
    for kernel in session.kernels:
        assert kernel.cubin().arch == session.target.arch


def state() -> dict[str, Any]:
    """What the harness changes, or might."""
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor import async_compile, codecache, compile_fx, config
    from torch._inductor.runtime import triton_helpers
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._triton import has_triton
    from triton.language import core, random, standard
    from triton.language.extra import libdevice
    from triton.runtime import driver
    from triton.runtime.interpreter import InterpretedFunction

    owners = (
        *(torch.cuda, CudaInterface, CudaInterface.Worker, FakeTensorMode, async_compile.AsyncCompile, compile_fx),
        *(codecache.PyCodeCache, triton_helpers, triton.language, core, core.tensor, core.dtype, standard, random),
        *(triton.language.math, libdevice, InterpretedFunction),
    )
    return {
        **{
            str(owner): {name: id(value) for name, value in vars(owner).items() if not isinstance(value, int)}
            for owner in owners
        },
        "available": (torch.cuda.is_available(), has_triton(), hasattr(torch._C, "_cuda_getCurrentRawStream")),
        "driver": driver._active,
        "settings": (config.force_disable_caches, config.compile_threads, config.shape_padding),
        "environment": {name: value for name, value in os.environ.items() if "TRITON" in name or "INDUCTOR" in name},
        "loaded": [module.__name__ for module in codecache.PyCodeCache.modules],
        "rewritten": list(InterpretedFunction.rewritten_fn),
        "guards": device_guards(),
    }


def device_guards() -> list[Any]:
    from graphwright_inductor_gpu.testing.device_guard import _guards

    return list(_guards())
