"""Where the elements of tensors lie, against a count of the places."""

from __future__ import annotations

import itertools

import pytest
import torch

from graphwright_plugins.graphs.layouts import may_meet, overlaps_itself


def places(tensor: torch.Tensor) -> list[int]:
    """The element of the storage that each element of a tensor is."""
    ranges = [range(size) for size in tensor.shape]
    start, strides = int(tensor.storage_offset()), tensor.stride()
    return [start + sum(i * s for i, s in zip(index, strides, strict=True)) for index in itertools.product(*ranges)]


@pytest.mark.parametrize("strides", list(itertools.product((0, 1, 2, 6), repeat=2)))
@pytest.mark.parametrize("sizes", list(itertools.product((0, 1, 2, 3), repeat=2)))
def test_overlaps_itself(sizes, strides):
    tensor = torch.empty(64).as_strided(sizes, strides)
    assert overlaps_itself(tensor) == (len(set(places(tensor))) < len(places(tensor)))


def test_interleaved_dimensions_count_as_overlapping():
    """No two elements are in one place, which only a count would find: to be wrong this way costs speed only."""
    tensor = torch.empty(64).as_strided((3, 2), (2, 3))
    assert len(set(places(tensor))) == 6
    assert overlaps_itself(tensor)


def test_a_sparse_tensor_does_not_overlap_itself():
    assert not overlaps_itself(torch.ones(2, 2).to_sparse())


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations([(0, 3), (2, 5), (3, 6), (4, 4)], 2)))
def test_stretches_that_meet(first, second):
    memory = torch.empty(8)
    one, other = memory[slice(*first)], memory[slice(*second)]
    assert may_meet(one, other) == bool(set(places(one)) & set(places(other)))


def test_stretches_are_told_in_bytes():
    memory = torch.empty(8, dtype=torch.float64)
    assert not may_meet(memory[:4], memory.view(torch.float32)[8:])
    assert may_meet(memory[:4], memory.view(torch.float32)[7:])
