from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Optional, TypeVar

import pytest
import torch

from graphwright_plugins.errors import BackendContractError
from graphwright_plugins.options.option_types import describe, matches


class Color(Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (1, int),
        (1, float),
        (1.5, float),
        (True, bool),
        ("a", str),
        (None, None),
        (None, int | None),
        (3, Optional[int]),
        ("a", Literal["a", "b"]),
        (Color.RED, Color),
        (torch.float16, torch.dtype),
        ([1, 2], list[int]),
        ((1, 2), Sequence[int]),
        ((1, "a"), tuple[int, str]),
        ((1, 2, 3), tuple[int, ...]),
        ((), tuple[int, ...]),
        ({"a": 1}, dict[str, int]),
        ({"a": [1]}, Mapping[str, list[int]]),
        ({1}, set[int]),
        (len, Callable[..., Any]),
        (int, type[Any]),
        (object(), Any),
    ],
)
def test_value_fits(value: object, annotation: Any) -> None:
    assert matches(value, annotation)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (True, int),
        (True, float),
        (1, bool),
        (1.5, int),
        ("1", int),
        (0, None),
        ("x", int | None),
        ("c", Literal["a", "b"]),
        (True, Literal[1]),
        (1, Color),
        ("ab", Sequence[str]),
        ([1, "a"], list[int]),
        ([1], tuple[int, ...]),
        ((1,), tuple[int, str]),
        ({1: 1}, dict[str, int]),
        ({"a": "b"}, Mapping[str, int]),
        (3, Callable[..., Any]),
    ],
)
def test_value_does_not_fit(value: object, annotation: Any) -> None:
    assert not matches(value, annotation)


@pytest.mark.parametrize("annotation", [TypeVar("T"), "int"])
def test_an_annotation_that_cannot_be_checked_is_the_backends_fault(annotation: Any) -> None:
    with pytest.raises(BackendContractError, match="annotation"):
        matches(1, annotation)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int, "int"),
        (int | None, "int or None"),
        (Literal["a", "b"], "'a' or 'b'"),
        (list[int], "list[int]"),
        (Color, "Color (Color.RED)"),
        (Sequence[str], "Sequence[str]"),
    ],
)
def test_annotations_read_well(annotation: Any, text: str) -> None:
    assert describe(annotation) == text
