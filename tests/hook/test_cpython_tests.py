"""CPython's own test modules give the same results under the frame hook as without it."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parent / "run_cpython_tests.py"))


@pytest.mark.slow
@pytest.mark.timeout(1300)
@pytest.mark.skipif(importlib.util.find_spec("test.test_frame") is None, reason="CPython's tests are not installed")
@pytest.mark.parametrize("module", SCRIPT["MODULES"])
def test_outcomes_are_the_same(module):
    found, about = SCRIPT["differences"](module)
    assert found == [], about
