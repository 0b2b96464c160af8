"""Makes the package `gwmemory` importable, and gives every test a process without entries of tests before it."""

import sys
from pathlib import Path

import pytest

import graphwright

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _no_entries():
    graphwright.reset()
    yield
    graphwright.reset()
