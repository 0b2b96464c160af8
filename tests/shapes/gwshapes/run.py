"""Runs the programs with varying sizes: compares with eager, and counts compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from graphwright.likeness import Likeness
from gwshapes.programs import Program

Compile = Callable[..., Callable[..., Any]]


class CountingBackend:
    """Counts graphs, and has another backend compile them."""

    def __init__(self, inner: Callable[..., Any] | None = None) -> None:
        self.count = 0
        self._inner = inner

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.count += 1
        return gm.forward if self._inner is None else self._inner(gm, example_inputs)


def compiles_of(program: Program, compile: Compile, backend: CountingBackend) -> int:
    """Run all calls of a program compiled; the number of graphs that were compiled."""
    compiled = compile(program.fn, backend=backend)
    for args in program.calls():
        compiled(*args)
    return backend.count


def first_difference(program: Program, compile: Compile, backend: Any, tolerance: float) -> str | None:
    """Run all calls compiled and in eager; what differs first, results and changed arguments, or None."""
    compiled = compile(program.fn, backend=backend)
    for number, (ours, theirs) in enumerate(zip(program.calls(), program.calls(), strict=True)):
        got, want = compiled(*ours), program.fn(*theirs)
        likeness = Likeness(rtol=tolerance, atol=tolerance)
        difference = likeness.difference((got, ours), (want, theirs), f"call {number}")
        if difference is not None:
            return difference
    return None
