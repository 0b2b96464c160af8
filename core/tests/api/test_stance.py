from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import graphwright
from graphwright.stance import RecompileForbidden, allows_capture, current_stance


@pytest.fixture(autouse=True)
def default_stance() -> Iterator[None]:
    yield
    graphwright.set_stance("default")


def test_function_context_and_decorator() -> None:
    @graphwright.set_stance("force_eager")
    def inside() -> str:
        return current_stance()

    assert current_stance() == "default"
    assert inside() == "force_eager"
    with graphwright.set_stance("eager_on_recompile"):
        assert current_stance() == "eager_on_recompile"
        assert inside() == "force_eager"
        assert current_stance() == "eager_on_recompile"
    assert current_stance() == "default"
    graphwright.set_stance("fail_on_recompile")
    assert current_stance() == "fail_on_recompile"


def test_unknown_stance_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no stance is called 'force_eagr'\. Did you mean 'force_eager'"):
        graphwright.set_stance("force_eagr")


def test_force_eager_captures_nothing() -> None:
    graphs = []
    fn = graphwright.compile(lambda x: x + 1, backend=lambda gm, inputs: graphs.append(gm) or gm.forward)
    with graphwright.set_stance("force_eager"):
        assert fn(torch.ones(1)).item() == 2
    with graphwright.set_stance("eager_on_recompile"):
        assert fn(torch.ones(1)).item() == 2
    assert graphs == []


def test_capture_is_asked_for() -> None:
    assert allows_capture("f")
    with torch.compiler.set_stance("force_eager"):
        assert not allows_capture("f")
    with (
        graphwright.set_stance("fail_on_recompile"),
        pytest.raises(RecompileForbidden, match=r"f would .* \(x changed\)"),
    ):
        allows_capture("f", "x changed")
