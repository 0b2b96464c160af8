"""Exchanging the weights that compiled graphs hold, by the backend's `HasRefit.update_weights`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from graphwright_plugins.errors import UnsupportedGraph
from graphwright_plugins.protocol import CompiledGraph


@dataclass(frozen=True)
class Refit:
    """How to exchange weights in what a backend compiled."""

    update: Callable[[CompiledGraph, Mapping[str, torch.Tensor]], CompiledGraph | None]
    """As `HasRefit.update_weights`; raises `UnsupportedGraph` where it can't be done."""
    why_not: Callable[[], str]
    """Why weights can't be exchanged in what was compiled last; empty where it is the backend's, of the whole graph."""


@dataclass
class _Held:
    """A compiled graph with constants."""

    function: Callable[..., Any]
    """What the backend compiled, or exchanged."""
    names: Mapping[int, str]
    """The names of the constants, by the positions of the inputs that they were."""
    why_not: str
    """Why they can't be exchanged; empty where they can."""


class Exchangeable:
    """The graphs that a backend compiled with constants of one set of weights: as a rule one, or forward and backward.

    Args:
        refit: How to exchange weights.
    """

    def __init__(self, refit: Refit) -> None:
        self._refit = refit
        self._held: list[_Held] = []

    def hold(self, compiled: Callable[..., Any], names: Mapping[int, str]) -> Callable[..., Any]:
        """What was compiled last, as a function that stays when another takes its place."""
        held = _Held(compiled, names, self._refit.why_not())
        self._held.append(held)
        return lambda *inputs: held.function(*inputs)

    def exchange(self, tensors: Mapping[int, torch.Tensor]) -> None:
        """Exchange constants, by the positions that they had among the captured graph's inputs.

        Raises:
            UnsupportedGraph: The backend can't.
        """
        due = [held for held in self._held if not held.names.keys().isdisjoint(tensors)]
        for held in due:
            if held.why_not:
                raise UnsupportedGraph(held.why_not, reason=held.why_not)
        for held in due:
            changed = {held.names[place]: t.detach() for place, t in tensors.items() if place in held.names}
            made = self._refit.update(held.function, changed)
            held.function = held.function if made is None else made
