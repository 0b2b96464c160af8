"""Capture one expression of plain Python beside a tensor operation, and compare it with eager."""

from __future__ import annotations

import pytest
import torch

from graphwright import reset
from graphwright.testing import assert_captures


@pytest.fixture
def captures():
    """Check that `body(*args)` is captured in one graph, with the same result or exception and the same changes."""

    def check(body, *args, ops=1):
        def fn(t, *args):
            try:
                return t + 1, body(*args)
            except Exception as error:
                return t + 1, type(error).__name__, str(error)

        reset()
        assert_captures(fn, torch.ones(2), *args, graphs=1, ops=ops, times=1)

    return check
