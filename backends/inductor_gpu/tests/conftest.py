"""The backend under test, and settings that keep compiling short."""

from __future__ import annotations

import pytest


@pytest.fixture
def backend() -> str:
    """The backend by name, so that its entry point is exercised too."""
    return "inductor_gpu"
