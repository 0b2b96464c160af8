"""Where a generator's decisions come from: a random number generator, or Hypothesis, which can shrink them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from hypothesis import strategies as st

Item = TypeVar("Item")


class Choices(Protocol):
    """A source of decisions; smaller numbers mean simpler programs."""

    def below(self, limit: int) -> int:
        """A number from 0 to `limit - 1`."""


class RandomChoices:
    """Decisions of a seeded generator."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)


class DrawnChoices:
    """Decisions drawn by Hypothesis."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw

    def below(self, limit: int) -> int:
        return self._draw(st.integers(0, limit - 1))


def pick(choices: Choices, items: Sequence[Item]) -> Item:
    """One of the items; earlier ones are simpler."""
    return items[choices.below(len(items))]


def chance(choices: Choices, percent: int) -> bool:
    """True in so many of a hundred cases; False is simpler."""
    return choices.below(100) >= 100 - percent
