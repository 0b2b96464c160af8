"""Fixtures of tests in several packages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def precision_as_before() -> Iterator[None]:
    """`set_float32_matmul_precision` also sets what was not set before, which only these attributes undo."""
    switches = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
    precision, before = torch.get_float32_matmul_precision(), [switch.fp32_precision for switch in switches]
    yield
    torch.set_float32_matmul_precision(precision)
    for switch, one in zip(switches, before, strict=True):
        switch.fp32_precision = one
