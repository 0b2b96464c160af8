"""Classes and functions that generated programs use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

import graphwright


class Pair(NamedTuple):
    """A named tuple."""

    left: Any
    right: Any


class Box:
    """An object with attributes, methods, a property, items and a class attribute that programs change."""

    total = 0

    def __init__(self, x: torch.Tensor, n: int = 1) -> None:
        self.x = x
        self.n = n
        self.items = [n]

    def scale(self, t: torch.Tensor, by: float = 0.5) -> torch.Tensor:
        return t * (self.n * by)

    def bump(self, by: int = 1) -> int:
        self.n += by
        self.items.append(self.n)
        return self.n

    def absorb(self, t: torch.Tensor) -> Box:
        self.x = self.x + t
        return self

    @property
    def double(self) -> int:
        return self.n * 2

    @double.setter
    def double(self, value: int) -> None:
        self.n = value // 2

    @classmethod
    def count(cls) -> int:
        cls.total += 1
        return cls.total

    @staticmethod
    def plus(a: Any, b: Any) -> Any:
        return a + b

    def __getitem__(self, key: int) -> int:
        return self.items[key]

    def __setitem__(self, key: int, value: int) -> None:
        self.items[key] = value

    def __len__(self) -> int:
        return len(self.items)

    def __call__(self, t: torch.Tensor) -> torch.Tensor:
        return self.scale(t) + 1

    def __add__(self, other: Any) -> Any:
        return self.n + other if isinstance(other, int) else NotImplemented


class Deep(Box):
    """A subclass with `super()` and `__getattr__`."""

    def scale(self, t: torch.Tensor, by: float = 0.25) -> torch.Tensor:
        return super().scale(t, by) - 1

    def __getattr__(self, name: str) -> Any:
        if name == "late":
            return 7
        raise AttributeError(f"no {name}")


class Scope:
    """A context manager that writes down what happens to it, and may swallow exceptions."""

    def __init__(self, log: list[Any], swallow: bool = False) -> None:
        self.log = log
        self.swallow = swallow

    def __enter__(self) -> Scope:
        self.log.append("in")
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> bool:
        self.log.append("out" if kind is None else kind.__name__)
        return self.swallow


@contextlib.contextmanager
def noting(log: list[Any], name: str = "g") -> Iterator[int]:
    """A context manager made from a generator."""
    log.append(name)
    try:
        yield len(log)
    finally:
        log.append("end " + name)


class Sorry(ValueError):
    """An exception with an attribute."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


def count_to(n: int, t: Any = 0) -> Iterator[Any]:
    """A generator."""
    for i in range(n):
        yield t + i


# ------------------------------------------------------------------ functions that break the graph


@graphwright.disable
def opaque(t: torch.Tensor, n: int = 1) -> torch.Tensor:
    return t * n + 1


@graphwright.disable
def opaque_append(items: list[Any], value: Any) -> int:
    if len(items) < 50:  # a loop over the list ends
        items.append(value)
    return len(items)


@graphwright.disable
def opaque_bump(box: Box) -> int:
    box.n += 10
    return box.n


@graphwright.disable
def opaque_call(function: Any, t: torch.Tensor) -> torch.Tensor:
    return function(t) - 1


@graphwright.disable
def opaque_raise(kind: type[Exception], text: str) -> None:
    raise kind(text)
