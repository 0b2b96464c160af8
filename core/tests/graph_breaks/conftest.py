"""Loads the programs of the graph-break catalogue."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def program(gw_id: str) -> dict[str, Any]:
    """The names of the program that breaks its graph for the reason `gw_id`."""
    return runpy.run_path(str(PROGRAMS / f"{gw_id}.py"))
