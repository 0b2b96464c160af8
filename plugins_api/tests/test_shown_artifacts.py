"""Artifacts reach every listener, once."""

from __future__ import annotations

import pytest

import graphwright_plugins.shown_artifacts as artifacts


def test_each_listener_hears_each_artifact_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "_listeners", [])
    heard: list[tuple[str, str, str]] = []

    def listener(kind: str, name: str, text: str) -> None:
        heard.append((kind, name, text))

    artifacts.show_artifact("output_code", "nobody listens", "")
    for _ in range(2):
        artifacts.listen_to_artifacts(listener)
    artifacts.show_artifact("output_code", "forward graph", "def call(): ...")
    assert heard == [("output_code", "forward graph", "def call(): ...")]
