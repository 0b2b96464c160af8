"""Artifacts reach every listener, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import graphwright_plugins.shown_artifacts as artifacts
from graphwright_plugins import DeclarationError, timed_stage


def test_each_listener_hears_each_artifact_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "_listeners", [])
    heard: list[tuple[str, str, str]] = []

    def listener(kind: str, name: str, text: Callable[[], str]) -> None:
        heard.append((kind, name, text()))

    artifacts.show_artifact("output_code", "nobody listens", "")
    for _ in range(2):
        artifacts.listen_to_artifacts(listener)
    artifacts.show_artifact("output_code", "forward graph", "def call(): ...")
    assert heard == [("output_code", "forward graph", "def call(): ...")]


def test_text_that_nobody_wants_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "_listeners", [lambda kind, name, text: None])
    made: list[str] = []

    def text() -> str:
        made.append("made")
        return "def forward(): ..."

    artifacts.show_artifact("aot_graphs", "forward graph", text)
    assert made == []
    artifacts.listen_to_artifacts(lambda kind, name, text: made.append(text()))
    artifacts.show_artifact("aot_graphs", "forward graph", text)
    assert made == ["made", "def forward(): ..."]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            ("tile_code", "program", "text"),
            r"no kind 'tile_code', .*'program'.*The kinds are: 'aot_graphs', 'output_code'",
        ),
        (("output_cod", "program", "text"), r"Did you mean 'output_code'\?"),
        ((None, "program", "text"), r"no kind None"),
        (("output_code", 3, "text"), r"the name 3; it must be a text"),
        (("output_code", "program", b"text"), r"given a bytes for 'program'; it must be a text, or a function"),
    ],
)
def test_what_nobody_would_see_is_refused(given: tuple[Any, ...], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        artifacts.show_artifact(*given)


@pytest.mark.parametrize("stage", [3, None, "", "total"])
def test_a_stage_has_a_name(stage: Any) -> None:
    with pytest.raises(DeclarationError, match="timed_stage has the name"), timed_stage(stage):
        pytest.fail("it was entered")
