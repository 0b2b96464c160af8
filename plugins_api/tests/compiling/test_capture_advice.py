"""What advice for capture may hold."""

from typing import Any

import pytest
import torch

from graphwright_plugins import CaptureAdvice, DeclarationError


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"keep_whole": torch.relu}, "keep_whole=.*; it must be a tuple of functions"),
        ({"leave_out": "relu"}, "leave_out='relu'; it must be a tuple of functions"),
        ({"leave_out": ["relu"]}, "'relu' in leave_out, which can't be called"),
        ({"reason": None}, "reason=None; it must be a text"),
    ],
)
def test_wrong_advice_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=f"CaptureAdvice has {told}"):
        CaptureAdvice(**given)


def test_functions_become_a_tuple() -> None:
    assert CaptureAdvice(keep_whole=[torch.relu]).keep_whole == (torch.relu,)  # type: ignore[arg-type]
