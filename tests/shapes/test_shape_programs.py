"""Each program does as eager for every size, at the stated number of compiles."""

from __future__ import annotations

import pytest
from gwshapes.programs import PROGRAMS, Program
from gwshapes.run import CountingBackend, compiles_of, first_difference

import graphwright

_INSTALLED = {backend.name for backend in graphwright.list_backends()}
# Two kernels or more for each program, at seconds each.
_MARKS = {"inductor_gpu": [pytest.mark.slow, pytest.mark.timeout(400)]}
BACKENDS = [
    pytest.param(name, marks=_MARKS.get(name, ()))
    for name in ("eager", "aot_eager", "inductor_gpu")
    if name in _INSTALLED
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_compiles(program: Program) -> None:
    assert compiles_of(program, graphwright.compile, CountingBackend()) == program.compiles


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_equals_eager(program: Program, backend: str) -> None:
    tolerance = 0.0 if backend == "eager" else 1e-5
    assert first_difference(program, graphwright.compile, backend, tolerance) is None


def test_there_are_enough_programs() -> None:
    assert len(PROGRAMS) >= 40
