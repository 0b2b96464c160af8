"""Copies that keep strides and shared memory."""

from __future__ import annotations

import pytest
import torch

from graphwright_cudagraphs.strided import buffer_like, clone_together, copy_into, has_own_places, span

LAYOUTS = {
    "contiguous": lambda: torch.randn(3, 4),
    "transposed": lambda: torch.randn(3, 4).t(),
    "every second": lambda: torch.randn(10)[::2],
    "column": lambda: torch.randn(3, 4)[:, 1],
    "offset": lambda: torch.randn(10)[3:7],
    "expanded": lambda: torch.randn(3, 1).expand(3, 4),
    "expanded everywhere": lambda: torch.randn(()).expand(2, 2),
    "windows": lambda: torch.randn(8).unfold(0, 4, 2),
    "no elements": lambda: torch.randn(2, 0, 3),
    "no dimensions": lambda: torch.randn(()),
    "channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "conjugated": lambda: torch.randn(3, dtype=torch.complex64).conj(),
    "negated": lambda: torch.randn(3, dtype=torch.complex64).conj().imag,
    "truth values": lambda: torch.randn(3, 4) > 0,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_buffer_takes_over_values_and_strides(layout: str) -> None:
    value = LAYOUTS[layout]()
    buffer = buffer_like(value)
    copy_into(buffer, value)
    assert torch.equal(buffer, value)
    assert buffer.stride() == value.stride()
    assert (buffer.is_conj(), buffer.is_neg()) == (value.is_conj(), value.is_neg())
    assert buffer.numel() == 0 or buffer.data_ptr() != value.data_ptr()


@pytest.mark.parametrize(
    ("layout", "own", "length"),
    [("transposed", True, 12), ("every second", True, 9), ("expanded", False, 3), ("windows", False, 8)],
)
def test_overlap_is_seen(layout: str, own: bool, length: int) -> None:
    assert has_own_places(LAYOUTS[layout]()) is own
    assert span(LAYOUTS[layout]()) == length


def test_clones_share_memory_as_the_originals_do() -> None:
    base = torch.arange(24.0)
    tensors = [base[5:9], base[7:20:3], base.view(4, 6)[1:, 2], base.view(torch.int32)[6:8]]
    clones = clone_together(tensors)
    for tensor, clone in zip(tensors, clones, strict=True):
        assert torch.equal(tensor, clone)
        assert tensor.stride() == clone.stride()
    assert clones[0].untyped_storage().data_ptr() != base.untyped_storage().data_ptr()
    clones[0][2] = 100.0  # base[7]
    assert clones[1][0] == 100.0
    assert base[7] == 7.0
