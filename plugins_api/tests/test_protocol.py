"""What `Capabilities` may hold."""

from typing import Any

import pytest
import torch

from graphwright_plugins import Capabilities, DeclarationError, Tolerance

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"devices": "cuda"}, r"devices='cuda'; it must be a set of device types such as 'cuda'"),
    ({"devices": [torch.device("cuda")]}, r"in devices; it must be a set of device types"),
    ({"devices": {"cuda:0"}}, r"'cuda:0'; devices are types without an index"),
    ({"devices": {""}}, r"''; devices are types"),
    ({"devices": 3}, r"devices=3"),
    ({"dtypes": None}, r"dtypes=None; it must be a set of dtypes"),
    ({"dtypes": ["float32"]}, r"'float32' in dtypes"),
    ({"training": "no"}, r"training='no'; it must be True or False"),
    ({"bitwise": 1}, r"bitwise=1; it must be True or False"),
    (
        {"tolerances": {"float32": (1, 2)}},
        r"tolerances with 'float32': \(1, 2\); it must be a mapping of dtypes to Tol",
    ),
    ({"tolerances": {torch.float32: (1, 2)}}, r"tolerances with torch\.float32: \(1, 2\)"),
    ({"tolerances": Tolerance(1e-3, 1e-3)}, r"tolerances=Tolerance"),
]


@pytest.mark.parametrize(("given", "told"), WRONG, ids=[str(given) for given, _ in WRONG])
def test_wrong_values_are_refused_with_what_is_expected(given: dict[str, Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=f"Capabilities has .*{told}|Capabilities has {told}"):
        Capabilities(**given)


@pytest.mark.parametrize("value", ["1e-3", None, -1, float("nan"), True])
def test_a_tolerance_is_a_number(value: Any) -> None:
    with pytest.raises(DeclarationError, match="must be a number that is not negative"):
        Tolerance(rtol=value, atol=0)
    with pytest.raises(DeclarationError, match="Tolerance has atol="):
        Tolerance(rtol=0, atol=value)


def test_collections_become_sets_so_that_capabilities_can_be_hashed() -> None:
    given = Capabilities(devices={"npu"}, dtypes=[torch.float32], tolerances={torch.float16: Tolerance(0, 1)})  # type: ignore[arg-type]
    assert given.devices == frozenset({"npu"})
    assert given.dtypes == frozenset({torch.float32})
    assert hash(given) == hash(Capabilities(devices=frozenset({"npu"}), dtypes=frozenset({torch.float32})))
