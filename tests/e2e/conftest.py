"""Every test starts with nothing captured, default settings, and internal errors raised."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import graphwright


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    graphwright.reset()
    with graphwright.config.patch(raise_internal_errors=True):
        yield
    graphwright.reset()
