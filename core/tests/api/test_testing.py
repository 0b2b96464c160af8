"""The probe itself: it passes what is right and catches each kind of difference."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphwright.likeness import Likeness, identity_pattern
from graphwright.testing import CompileCounter, assert_captures, assert_same_outcome, run_once


def difference(got: Any, want: Any) -> str | None:
    return Likeness().difference(got, want)


class Thing:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a: Any) -> None:
        self.a = a


def loop() -> list[Any]:
    items: list[Any] = [1]
    items.append(items)
    return items


ones = torch.ones
SAME: list[tuple[Callable[[], Any], ...]] = [
    (lambda: 1, lambda: 1),
    (lambda: float("nan"), lambda: float("nan")),
    (lambda: {"a": [ones(2), (1, None)]}, lambda: {"a": [ones(2), (1, None)]}),
    (lambda: Thing(a=ones(2)), lambda: Thing(a=ones(2))),
    (loop, loop),
    (lambda: KeyError("a"), lambda: KeyError("a")),
    (lambda: torch.tensor([float("nan"), 1]), lambda: torch.tensor([float("nan"), 1])),
    (lambda: {1, 2}, lambda: {2, 1}),
    (lambda: torch.float32, lambda: torch.float32),
]
DIFFERENT: list[tuple[Any, Any, str]] = [
    (1, 1.0, "int instead of float"),
    (True, 1, "bool instead of int"),
    (0.0, -0.0, "0.0 instead of -0.0"),
    ("a", "b", "'a' instead of 'b'"),
    ([1, 2], [1, 3], r"result\[1\]: 2 instead of 3"),
    ([1], [1, 2], "length 1 instead of 2"),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "key 0 of result"),
    ({"a": 1}, {"a": 2}, r"result\['a'\]: 1 instead of 2"),
    (ones(2), ones(2, dtype=torch.float64), "dtype"),
    (ones(2), ones(3), "shape"),
    (ones(2, 2), ones(2, 2).t().contiguous().t(), "stride"),
    (ones(2), ones(2, requires_grad=True), "requires_grad"),
    (ones(2), ones(2) + 1, "values differ"),
    (Thing(a=1), Thing(a=2), r"result\['a'\]"),
    (Slotted(1), Slotted(2), r"result\['a'\]"),
    (KeyError("a"), KeyError("b"), r"args\[0\]"),
    (lambda: 1, lambda: 2, "function"),
    ({1, 2}, {1, 3}, "instead of"),
    (torch.nn.Parameter(ones(2)), ones(2, requires_grad=True), "Parameter instead of Tensor"),
]


@pytest.mark.parametrize("number", range(len(SAME)))
def test_same(number: int) -> None:
    got, want = SAME[number]
    assert difference(got(), want()) is None


@pytest.mark.parametrize(("got", "want", "text"), DIFFERENT)
def test_different(got: Any, want: Any, text: str) -> None:
    found = difference(got, want)
    assert found is not None
    assert re.search(text, found)


def test_gradients_are_compared() -> None:
    a, b = ones(2, requires_grad=True), ones(2, requires_grad=True)
    a.sum().backward()
    assert "grad" in (difference(a, b) or "")


def test_sharing_is_seen() -> None:
    x = ones(4)
    assert identity_pattern([x, x]) == {"[1]": "[0]", "[1] (storage)": "[0]"}
    assert identity_pattern([x, x[1:]]) == {"[1] (storage)": "[0]"}
    assert identity_pattern([x, x.clone()]) == {}


# ------------------------------------------------------------------ outcomes


def outcome_of(call: Callable[..., Any], *args: Any) -> Any:
    return run_once(None, call, args, {}, seed=0)


@pytest.mark.parametrize(
    ("got", "text"),
    [
        (lambda x: x + 2, "result: values differ"),
        (lambda x: x.add_(1), "arguments afterwards"),
        (lambda x: print("b") or x + 1, "printed output"),
        (lambda x: random.random() and x + 1, "random state"),
        (lambda x: torch.rand(1) is not None and x + 1, "random state"),
        (lambda x: 1 / 0, "raised ZeroDivisionError"),
    ],
)
def test_different_outcomes(got: Callable[..., Any], text: str) -> None:
    want = outcome_of(lambda x: x + 1, ones(2))
    with pytest.raises(AssertionError, match=text):
        assert_same_outcome(outcome_of(got, ones(2)), want)


def test_exceptions_must_agree() -> None:
    def fails(x: Any) -> None:
        raise KeyError(x)

    want = outcome_of(fails, 1)
    assert_same_outcome(outcome_of(fails, 1), want)
    with pytest.raises(AssertionError, match="exception"):
        assert_same_outcome(outcome_of(lambda x: [][x], 1), want)
    with pytest.raises(AssertionError, match="exception"):
        assert_same_outcome(outcome_of(lambda x: x, 1), want)


def test_returning_an_argument_is_not_returning_a_copy() -> None:
    want = outcome_of(lambda x: x, ones(2))
    with pytest.raises(AssertionError, match="shared"):
        assert_same_outcome(outcome_of(lambda x: x.clone(), ones(2)), want)


# ------------------------------------------------------------------ assert_captures


def test_counts() -> None:
    counter = assert_captures(lambda x, *, k: (x + 1) * k, ones(2), k=3, graphs=1, ops=2)
    assert (counter.frame_count, counter.op_count, len(counter.graphs)) == (1, 2, 1)
    with pytest.raises(AssertionError, match="1 graphs instead of 2"):
        assert_captures(lambda x: x + 1, ones(2), graphs=2)
    with pytest.raises(AssertionError, match="1 ops instead of 5"):
        assert_captures(lambda x: x + 1, ones(2), ops=5)
    with pytest.raises(AssertionError, match="graph breaks"):
        assert_captures(lambda x: x + 1, ones(2), breaks=("GW0001",))


def test_breaks() -> None:
    def prints(x: torch.Tensor) -> torch.Tensor:
        print(x.shape)
        return x + 1

    assert_captures(prints, ones(2), graphs=None, breaks=None)
    with pytest.raises(AssertionError, match="graph breaks"):
        assert_captures(prints, ones(2), graphs=None, breaks=())


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
def test_training_step(backend: str | None) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU())
    assert_captures(net, torch.randn(5, 3, requires_grad=True), graphs=1, backend=backend, rtol=1e-6, atol=1e-6)


def test_a_wrong_backend_is_caught() -> None:
    def wrong(gm: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        return lambda *args: tuple(out + 1 for out in gm(*args))

    with pytest.raises(AssertionError, match="call 1: result: values differ"):
        assert_captures(lambda x: x * 2, ones(2), backend=wrong)


def test_counter_hands_on() -> None:
    counter = CompileCounter("aot_eager")
    assert_captures(lambda x: x + 1, ones(2), backend=counter, graphs=1)
    assert counter.frame_count == 1
    counter.clear()
    assert (counter.frame_count, counter.op_count, counter.graphs) == (0, 0, [])
