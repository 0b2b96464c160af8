"""What compiling a graph assumes of its symbolic sizes: written down with the artifact, and assumed again on loading.

A backend may look at a symbolic size while it compiles, and what it then relies on becomes a guard. Whoever loads what
it compiled would have no such guard, and run it on sizes that it is wrong for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from graphwright_plugins.errors import NotCacheable
from graphwright_plugins.graphs.symbols import is_symbolic
from graphwright_plugins.torch_compat import (
    assumptions_from,
    count_assumptions,
    evaluate_sizes,
    expression_of,
    has_unbacked_symbols,
    hint_of,
    python_text,
    shape_env_of,
)


class SizeWatch:
    """Sees what is assumed of the sizes of a graph's inputs from now on.

    Args:
        example_inputs: The inputs that are compiled for.

    Raises:
        NotCacheable: Some sizes depend on values.
    """

    def __init__(self, example_inputs: Sequence[Any]) -> None:
        numbers = _named_symbols(example_inputs)
        # By the symbols of this moment: compiling may put something else in their place.
        self._names = {expression_of(number): name for name, number in numbers.items()}
        self._env = next((shape_env_of(number) for number in numbers.values()), None)
        if self._env is not None and has_unbacked_symbols(self._env):
            raise NotCacheable("some of its sizes depend on the values of tensors")
        self._before = 0 if self._env is None else count_assumptions(self._env)

    def assumed(self) -> tuple[str, ...]:
        """What was assumed since, each as a Python expression in which `n0`, `n1`, … are symbols of the inputs.

        Raises:
            NotCacheable: Something was assumed of a number that is no size of an input.
        """
        if self._env is None:
            return ()
        texts = []
        for assumption in assumptions_from(self._env, self._before):
            unknown = assumption.free_symbols - self._names.keys()
            if unknown:
                raise NotCacheable(f"compiling it assumed {assumption}, where {sorted(map(str, unknown))} isn't a size")
            texts.append(python_text(assumption, self._names))
        return tuple(dict.fromkeys(texts))


def why_not_assumed(assumptions: Sequence[str], example_inputs: Sequence[Any]) -> str | None:
    """Assume what an artifact was compiled under; or, where the sizes at hand are others, assume nothing and say so."""
    if not assumptions:
        return None
    numbers = _named_symbols(example_inputs)
    hints = {name: hint_of(number) for name, number in numbers.items()}
    for text in assumptions:
        if None in hints.values() or not evaluate_sizes(text, hints):
            return f"it was compiled for sizes with {text}, and these are {hints}"
    for text in assumptions:
        if not evaluate_sizes(text, numbers):  # this makes the guard
            return f"it was compiled for sizes with {text}"
    return None


def has_hidden_sizes(example_inputs: Sequence[Any]) -> bool:
    """Whether a symbolic size is only to be had from a tensor, and is no input of its own.

    Torch's disk caches of graphs write down what was assumed of sizes that are inputs, as they all are under
    torch.compile. What was assumed of others they forget, and what they load is then run on sizes it is wrong for.
    """
    given = {expression_of(value) for value in example_inputs if is_symbolic(value)}
    tensors = [value for value in example_inputs if isinstance(value, torch.Tensor)]
    symbols = {symbol for number in _symbolic_numbers(tensors) for symbol in expression_of(number).free_symbols}
    return not symbols <= given


def _named_symbols(example_inputs: Sequence[Any]) -> dict[str, Any]:
    """The symbolic numbers of the inputs that are one symbol each, named in the order in which they come."""
    named: dict[Any, Any] = {}
    for number in _symbolic_numbers(example_inputs):
        expression = expression_of(number)
        if expression.is_symbol and expression not in named:
            named[expression] = number
    return {f"n{position}": number for position, number in enumerate(named.values())}


def _symbolic_numbers(example_inputs: Sequence[Any]) -> Iterator[Any]:
    for value in example_inputs:
        if isinstance(value, torch.Tensor):
            strided = (*value.stride(), value.storage_offset()) if value.layout is torch.strided else ()
            yield from filter(is_symbolic, (*value.shape, *strided))
        elif is_symbolic(value):
            yield value
