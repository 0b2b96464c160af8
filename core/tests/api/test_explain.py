from __future__ import annotations

from typing import Any

import pytest
import torch

import graphwright
from graphwright.explain import Explanation


def double(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).relu()


def prints(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    print("hello")
    return x * 2


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return double(x)


X = torch.ones(2)


@pytest.mark.parametrize(
    "fn", [double, Net(), Net().forward, graphwright.compile(double, backend="eager"), lambda x: double(x)]
)
def test_one_graph(fn: Any) -> None:
    result = graphwright.explain(fn)(X)
    assert isinstance(result, Explanation)
    assert torch.equal(result.out, double(X))
    assert (result.graph_count, result.graph_break_count, result.break_reasons) == (1, 0, [])
    assert result.op_count == 2
    assert len(result.ops_per_graph[0]) == 2
    assert len(result.graphs) == 1
    assert result.guards
    assert result.compile_time_s > 0
    text = str(result)
    assert "Graphs: 1   Graph breaks: 0   Ops: 2" in text
    assert "relu" in text
    assert "tensor" in text


def test_breaks_say_where_why_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    result = graphwright.explain(prints)(X)
    assert torch.equal(result.out, (X + 1) * 2)
    assert capsys.readouterr().out == "hello\n"
    (reason,) = result.break_reasons
    assert result.graph_break_count == 1
    assert reason.gw_id.startswith("GW")
    assert reason.location is not None
    assert reason.location.filename == __file__
    assert reason.location.line == prints.__code__.co_firstlineno + 2
    assert "print" in reason.reason
    assert reason.remedy
    assert f"{reason.gw_id} {__file__}:{reason.location.line}" in str(result)


def test_captures_afresh_each_time() -> None:
    compiled = graphwright.compile(double, backend="eager")
    compiled(X)
    for _ in range(2):
        assert graphwright.explain(compiled)(X).graph_count == 1


def test_exceptions_go_through() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        graphwright.explain(fails)(X)


def test_wrong_target_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a function"):
        graphwright.explain(3)


def test_what_is_never_captured_is_told() -> None:
    def generator(x: torch.Tensor) -> Any:
        yield x + 1

    result = graphwright.explain(generator)(X)
    assert torch.equal(next(result.out), X + 1)
    (skipped,) = result.skipped
    assert "generator" in skipped
    assert "its body runs in eager" in skipped
