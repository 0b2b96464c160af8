"""Check `eq`: same types and same bits all the way down."""

from types import ModuleType
from typing import Any

import pytest

NAN = float("nan")
EQUAL = [
    (1, 1),
    (10**30, 10**30),
    (-(2**63), -(2**63)),
    (1.5, 1.5),
    (NAN, float("nan")),
    (complex(0.0, NAN), complex(0.0, float("nan"))),
    ("x" * 3, "xxx"),
    (b"ab", bytes([97, 98])),
    (None, None),
    (True, True),
    (..., ...),
    ((1, ("a", 2.0)), (1, ("a", 2.0))),
    (frozenset({1, "a"}), frozenset({"a", 1})),
    (frozenset(), frozenset()),
]
DIFFERENT = [
    (1, 2),
    (1, True),
    (0, False),
    (1, 1.0),
    (10**30, 10**30 + 1),
    (2**64, -(2**64)),
    (0.0, -0.0),
    (complex(0.0, 0.0), complex(-0.0, 0.0)),
    ("a", b"a"),
    ("a", "b"),
    (b"a", bytearray(b"a")),
    (None, False),
    ((1, 2), (1, 2.0)),
    ((1,), (1, 2)),
    ((1,), [1]),
    (frozenset({1}), frozenset({True})),
    (frozenset({1}), frozenset({1.0})),
    (frozenset({1, 2}), frozenset({1})),
    (frozenset({1}), {1}),
]


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equal_constants(native: ModuleType, passes: Any, a: object, b: object) -> None:
    assert native.constants_equal(a, b)
    assert passes(b, ("eq", a))


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different_constants(native: ModuleType, passes: Any, a: object, b: object) -> None:
    assert not native.constants_equal(a, b)
    assert not passes(b, ("eq", a))


class IntChild(int):
    pass


@pytest.mark.parametrize("value", [[1], {}, object(), {1}, (1, []), IntChild(3), frozenset({object()}), int])
def test_only_plain_constants_are_taken(native: ModuleType, passes: Any, value: object) -> None:
    assert not native.is_constant(value)
    with pytest.raises(TypeError, match="plain constant"):
        passes(value, ("eq", value))


def test_no_user_code_runs(passes: Any) -> None:
    class Evil(int):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("user code ran")

        __hash__ = int.__hash__

    assert not passes(Evil(1), ("eq", 1))
