from __future__ import annotations

import logging

import pytest
import torch

import graphwright
from graphwright import config, events, logs
from graphwright.exc import CodeLocation, CompileValueError
from graphwright.graph_breaks import PRINTING

BREAK = events.GraphBroke(
    kind=PRINTING,
    detail="print(x)",
    location=CodeLocation("train.py", 12, "step", "print(x)"),
    user_stack=(CodeLocation("train.py", 40, "main", "step(x)"),),
)


def test_parse() -> None:
    assert logs.parse_logs("") == {}
    assert logs.parse_logs(" graph_breaks, +guards ") == {"graph_breaks": False, "guards": True}
    everything = logs.parse_logs("+all,-guards")
    assert set(everything) == set(logs.LOGS) - {"trace_bytecode", "guards"}
    assert all(everything.values())


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(CompileValueError, match=r"no log is called 'graph_break'\. Did you mean 'graph_breaks'"):
        logs.parse_logs("graph_break")


def test_unknown_name_in_config_changes_nothing() -> None:
    with pytest.raises(CompileValueError, match="nonsense"):
        config.logs = "nonsense"
    assert config.logs == ""


def test_prints_what_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with config.patch(logs="graph_breaks"):
        events.emit(BREAK)
        events.emit(events.GuardsBuilt(function="f", guards=("x: type int",)))
    events.emit(BREAK)
    text = capsys.readouterr().err
    assert text.count("[graphwright graph_breaks]") == 1
    assert "GW0012 graph break in train.py:12: printing, logging or warning: print(x)" in text
    assert PRINTING.remedy in text
    assert "main" not in text
    assert "guards" not in text


def test_verbose_shows_the_stack(capsys: pytest.CaptureFixture[str]) -> None:
    with config.patch(logs="+graph_breaks"):
        events.emit(BREAK)
    assert "at train.py:40 in main: step(x)" in capsys.readouterr().err


def test_artifacts_go_to_the_log_of_their_kind(capsys: pytest.CaptureFixture[str]) -> None:
    with config.patch(logs="output_code"):
        events.emit(events.BackendArtifact(kind="aot_graphs", name="g", text="FORWARD"))
        events.emit(events.BackendArtifact(kind="output_code", name="g", text="KERNEL"))
    text = capsys.readouterr().err
    assert "KERNEL" in text
    assert "FORWARD" not in text


def test_graphs_of_operators_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    weight = torch.ones(2, requires_grad=True)
    with config.patch(logs="aot_graphs"):
        graphwright.compile(lambda x: (x * weight).sum(), backend="aot_eager")(torch.ones(2)).backward()
    text = capsys.readouterr().err
    forward, backward = text.split("[graphwright aot_graphs] backward graph")
    assert forward.startswith("[graphwright aot_graphs] forward graph")
    assert "torch.ops.aten.sum.default" in forward
    assert "torch.ops.aten.expand.default" in backward
    assert "[graphwright" not in backward


def test_graph_breaks_are_info_once_a_place(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "graphwright"):
        events.emit(BREAK)
        events.emit(BREAK)
    assert [(r.levelno, r.message.splitlines()[0][:26]) for r in caplog.records] == [
        (logging.INFO, "GW0012 graph break in trai")
    ]


def test_recompile_limit_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    events.emit(events.CacheLimitHit(function="f", limit=8, reason="x: size 3, expected 2"))
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert "recompile_limit (8)" in caplog.text
    assert "size 3, expected 2" in caplog.text


def test_nothing_is_printed_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    events.emit(BREAK)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", sorted(logs.LOGS))
def test_every_log_says_what_it_shows(name: str) -> None:
    assert logs.LOGS[name].about
