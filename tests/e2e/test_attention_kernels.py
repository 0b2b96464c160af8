"""The kernels that scaled dot product attention may choose from: asked for, set, guarded, left as eager leaves them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import graphwright
from graphwright.testing import CompileCounter, assert_captures

pytestmark = pytest.mark.e2e
KERNELS = ("flash_sdp", "mem_efficient_sdp", "math_sdp", "cudnn_sdp")


@pytest.fixture(autouse=True)
def kernels_kept() -> Iterator[None]:
    before = allowed()
    yield
    for name, value in zip(KERNELS, before, strict=True):
        getattr(torch.backends.cuda, f"enable_{name}")(value)


def allowed():
    return tuple(getattr(torch.backends.cuda, f"{name}_enabled")() for name in KERNELS)


def rand(*shape):
    torch.manual_seed(0)
    return torch.rand(*shape)


def chosen(x):
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION]):
        inside = allowed()
        y = F.scaled_dot_product_attention(x, x, x)
    return y + 1, inside, allowed()


def nested(x):
    with sdpa_kernel(SDPBackend.MATH):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            x = F.scaled_dot_product_attention(x, x, x)
        return F.scaled_dot_product_attention(x, x, x), allowed()


def asked(x):
    return x * 2 if torch.backends.cuda.flash_sdp_enabled() else x * 3


def set_for_good(x):
    torch.backends.cuda.enable_flash_sdp(not torch.backends.cuda.flash_sdp_enabled())
    return x + 1


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("fn", [chosen, nested, asked], ids=lambda fn: fn.__name__)
def test_captured_whole(fn, backend):
    assert_captures(fn, rand(1, 2, 4, 8).requires_grad_(), backend=backend)


def test_a_change_outside_recompiles():
    counter = CompileCounter()
    compiled = graphwright.compile(asked, backend=counter)
    for flash in (True, False, True):
        torch.backends.cuda.enable_flash_sdp(flash)
        assert torch.equal(compiled(rand(3)), asked(rand(3)))
    assert counter.frame_count == 2


def test_what_is_set_stays_set():
    compiled = graphwright.compile(set_for_good, backend="eager")
    before = torch.backends.cuda.flash_sdp_enabled()
    for n in range(1, 5):
        compiled(rand(3))
        assert torch.backends.cuda.flash_sdp_enabled() is (before if n % 2 == 0 else not before)


def test_a_graph_break_inside():
    def fn(x):
        with sdpa_kernel(SDPBackend.MATH):
            y = F.scaled_dot_product_attention(x, x, x)
            graphwright.graph_break()
            z = y + 1, allowed()
        return z, allowed()

    assert_captures(fn, rand(1, 2, 4, 8), graphs=None, breaks=None)


def test_an_exception_inside_leaves_nothing_set():
    def fn(x, index):
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(x, x, x)[0, 0].index_select(0, index)

    compiled = graphwright.compile(fn, backend="eager")
    before = allowed()
    with pytest.raises((IndexError, RuntimeError)):
        compiled(rand(1, 2, 4, 8), torch.tensor([9]))
    assert allowed() == before
