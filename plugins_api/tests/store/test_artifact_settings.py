from pathlib import Path

import pytest

from graphwright_plugins import (
    ArtifactSettings,
    artifact_settings_from_environment,
    current_artifact_settings,
    using_artifact_settings,
)


def test_off_by_default() -> None:
    assert artifact_settings_from_environment({}) == ArtifactSettings("off")
    assert "graphwright" in str(ArtifactSettings().place)


def test_the_environment_is_followed() -> None:
    settings = artifact_settings_from_environment(
        {
            "GRAPHWRIGHT_ARTIFACT_CACHE": "1",
            "GRAPHWRIGHT_ARTIFACT_CACHE_DIR": "/somewhere",
            "GRAPHWRIGHT_ARTIFACT_CACHE_SIZE": "1.5G",
        }
    )
    assert settings == ArtifactSettings("on", Path("/somewhere"), 3 * 512 * 1024**2)
    assert settings.place == Path("/somewhere")
    assert artifact_settings_from_environment({"GRAPHWRIGHT_ARTIFACT_CACHE": "read-only"}).mode == "read_only"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GRAPHWRIGHT_ARTIFACT_CACHE", "maybe"),
        ("GRAPHWRIGHT_ARTIFACT_CACHE_SIZE", "much"),
        ("GRAPHWRIGHT_ARTIFACT_CACHE_SIZE", "0"),
    ],
)
def test_what_cannot_be_understood_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name}.* not '{value}'"):
        artifact_settings_from_environment({name: value})


def test_wrong_values_are_refused() -> None:
    with pytest.raises(ValueError, match="must be 'off', 'on' or 'read_only', not 'yes'"):
        ArtifactSettings("yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="positive number of bytes"):
        ArtifactSettings("on", limit_bytes=0)


def test_settings_hold_for_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHWRIGHT_ARTIFACT_CACHE", "on")
    assert current_artifact_settings().mode == "on"
    with using_artifact_settings(ArtifactSettings("read_only")):
        assert current_artifact_settings().mode == "read_only"
    assert current_artifact_settings().mode == "on"
