from typing import Any

import pytest
import torch

from graphwright_plugins import Capabilities, Tolerance
from graphwright_plugins.testing.comparison import (
    alias_facts,
    assert_same_aliases,
    assert_same_value,
    assert_same_values,
)

LOOSE, EXACT = Capabilities(), Capabilities(bitwise=True)


def test_equal_tensors_pass() -> None:
    assert_same_value(torch.ones(2), torch.ones(2), EXACT, "output 0")


@pytest.mark.parametrize(
    ("expected", "actual", "text"),
    [
        (torch.ones(2), torch.ones(3), "has shape"),
        (torch.ones(2), torch.ones(2).double(), "has dtype"),
        (torch.ones(2), torch.ones(2, requires_grad=True), "has requires_grad"),
        (torch.ones(2, 3), torch.ones(3, 2).t(), "has strides"),
        (torch.ones(2), torch.zeros(2), "not close"),
        (torch.ones(2), 1.0, "instead of a tensor"),
        (None, torch.ones(2), "instead of None"),
        (3, 4, "is 4 instead of 3"),
        (1, True, "is True instead of 1"),
    ],
)
def test_differences_are_named(expected: Any, actual: Any, text: str) -> None:
    with pytest.raises(AssertionError, match=text) as caught:
        assert_same_value(expected, actual, LOOSE, "output 7")
    assert "output 7" in str(caught.value)


def test_bitwise_backends_are_compared_exactly() -> None:
    near = torch.ones(2) + 1e-7
    assert_same_value(torch.ones(2), near, LOOSE, "output")
    with pytest.raises(AssertionError):
        assert_same_value(torch.ones(2), near, EXACT, "output")


def test_a_tolerance_of_the_backends_own_is_used() -> None:
    loose = Capabilities(tolerances={torch.float32: Tolerance(rtol=0.1, atol=0.1)})
    assert_same_value(torch.ones(2), torch.ones(2) * 1.05, loose, "output")


def test_strides_are_left_out_where_not_promised() -> None:
    assert_same_value(torch.ones(2, 3), torch.ones(3, 2).t(), Capabilities(strides=False), "output")


def test_a_missing_output_is_named() -> None:
    with pytest.raises(AssertionError, match="1 outputs instead of 2"):
        assert_same_values([1, 2], [1], LOOSE, "output")


def test_alias_facts_tell_identity_from_shared_memory() -> None:
    x = torch.ones(3)
    assert alias_facts([x], [x, x[0], x + 1]) == {
        "output 0 is input 0",
        "output 1 shares memory with input 0",
        "output 1 shares memory with output 0",
    }


def test_tensors_without_elements_share_nothing() -> None:
    assert alias_facts([torch.ones(0)], [torch.ones(0)]) == set()


@pytest.mark.parametrize(
    ("expected", "actual", "text"), [({"a"}, set(), "but not in the"), (set(), {"b"}, "not in eager")]
)
def test_alias_differences_are_listed(expected: set[str], actual: set[str], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        assert_same_aliases(expected, actual)
