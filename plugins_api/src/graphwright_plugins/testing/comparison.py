"""Whether what a compiled graph did equals what eager did: values, metadata, aliases."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import torch

from graphwright_plugins.protocol import Capabilities, Tolerance

_EXACT = Tolerance(rtol=0.0, atol=0.0)


def assert_same_values(expected: Sequence[Any], actual: Sequence[Any], capabilities: Capabilities, what: str) -> None:
    """Compare two lists of tensors and plain values, one by one.

    Raises:
        AssertionError: They differ; the message says in which and how.
    """
    assert len(actual) == len(expected), f"{len(actual)} {what}s instead of {len(expected)}"
    for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
        assert_same_value(left, right, capabilities, f"{what} {index}")


def assert_same_value(expected: Any, actual: Any, capabilities: Capabilities, what: str) -> None:
    """Compare two tensors or plain values.

    Raises:
        AssertionError: They differ; the message says how.
    """
    if not isinstance(expected, torch.Tensor):
        assert type(actual) is type(expected), f"{what} is {actual!r} instead of {expected!r}"
        assert actual == expected, f"{what} is {actual!r} instead of {expected!r}"
        return
    assert isinstance(actual, torch.Tensor), f"{what} is {actual!r} instead of a tensor"
    for fact in ("dtype", "shape", "device", "requires_grad"):
        found, wanted = getattr(actual, fact), getattr(expected, fact)
        assert found == wanted, f"{what} has {fact} {found} instead of {wanted}"
    if capabilities.strides and expected.numel() > 0:
        assert actual.stride() == expected.stride(), (
            f"{what} has strides {actual.stride()} instead of {expected.stride()}"
        )
    _assert_close(expected, actual, capabilities, what)


def _assert_close(expected: torch.Tensor, actual: torch.Tensor, capabilities: Capabilities, what: str) -> None:
    tolerance = _EXACT if capabilities.bitwise else _tolerance(capabilities.tolerances, expected.dtype)
    torch.testing.assert_close(
        actual.detach(),
        expected.detach(),
        rtol=None if tolerance is None else tolerance.rtol,
        atol=None if tolerance is None else tolerance.atol,
        equal_nan=True,
        msg=lambda text: f"{what}: {text}",
    )


def _tolerance(tolerances: Mapping[torch.dtype, Tolerance], dtype: torch.dtype) -> Tolerance | None:
    return tolerances.get(dtype)


def alias_facts(inputs: Sequence[Any], outputs: Sequence[Any]) -> set[str]:
    """Which of the inputs and outputs are one object, and which share memory, as sentences."""
    named = [*_tensors("input", inputs), *_tensors("output", outputs)]
    facts = set()
    for (left_name, left), (right_name, right) in combinations(named, 2):
        if left is right:
            facts.add(f"{right_name} is {left_name}")
        elif _shares_memory(left, right):
            facts.add(f"{right_name} shares memory with {left_name}")
    return facts


def _tensors(kind: str, values: Sequence[Any]) -> Iterator[tuple[str, torch.Tensor]]:
    for index, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            yield f"{kind} {index}", value


def _shares_memory(left: torch.Tensor, right: torch.Tensor) -> bool:
    left_storage, right_storage = left.untyped_storage(), right.untyped_storage()
    return left_storage.nbytes() > 0 and left_storage.data_ptr() == right_storage.data_ptr()


def assert_same_aliases(expected: set[str], actual: set[str]) -> None:
    """Compare two results of `alias_facts`.

    Raises:
        AssertionError: They differ; the message lists what is missing and what is too much.
    """
    missing, extra = sorted(expected - actual), sorted(actual - expected)
    assert not missing, f"in eager, but not in the compiled graph: {', '.join(missing)}"
    assert not extra, f"in the compiled graph, but not in eager: {', '.join(extra)}"
