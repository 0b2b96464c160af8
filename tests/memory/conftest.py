"""Makes the package `gwmemory` importable, and gives every test a process without entries of tests before it."""

import gc
import sys
from pathlib import Path

import pytest

import graphwright

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="package", autouse=True)
def _quick_collections():
    """The collector need not look at what was there before: torch alone makes 300,000 objects."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _no_entries():
    graphwright.reset()
    yield
    graphwright.reset()
