"""Artifacts reach every listener, once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import graphwright_plugins.shown_artifacts as artifacts


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
