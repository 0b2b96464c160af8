from __future__ import annotations

import contextlib
from unittest import mock

import pytest

import graphwright
from graphwright import config
from graphwright.settings import Settings


def test_reads_settings() -> None:
    assert graphwright.config is config
    assert config.recompile_limit == Settings().recompile_limit == config.current().recompile_limit


def test_patch_is_undone_also_after_an_exception() -> None:
    seen = []
    with contextlib.suppress(KeyError), config.patch(recompile_limit=64):
        seen.append(config.recompile_limit)
        raise KeyError
    assert seen == [64]
    assert config.recompile_limit == 8


@pytest.mark.parametrize("args", [("recompile_limit", 3), ({"recompile_limit": 3},)])
def test_patch_takes_name_and_value_or_mapping(args: tuple[object, ...]) -> None:
    with config.patch(*args):  # type: ignore[arg-type]
        assert config.recompile_limit == 3


def test_patch_decorates() -> None:
    @config.patch(recompile_limit=5)
    def read() -> int:
        return config.recompile_limit

    assert (read(), read(), config.recompile_limit) == (5, 5, 8)


def test_patches_nest_and_restore_only_their_own() -> None:
    with config.patch(recompile_limit=5):
        with config.patch(capture_scalar_outputs=True, recompile_limit=6):
            assert (config.recompile_limit, config.capture_scalar_outputs) == (6, True)
        assert (config.recompile_limit, config.capture_scalar_outputs) == (5, False)


def test_assignment_and_deletion() -> None:
    config.recompile_limit = 9
    try:
        assert config.current().recompile_limit == 9
    finally:
        del config.recompile_limit
    assert config.recompile_limit == 8


def test_mock_patch_works() -> None:
    with mock.patch.object(config, "recompile_limit", 2):
        assert config.recompile_limit == 2
    assert config.recompile_limit == 8


@pytest.mark.parametrize(
    "use",
    [
        lambda: config.recompile_limt,
        lambda: setattr(config, "recompile_limt", 3),
        lambda: config.patch(recompile_limt=3),
    ],
)
def test_unknown_name_is_refused_with_the_nearest(use: object) -> None:
    with pytest.raises(AttributeError, match=r"no setting 'recompile_limt'.*Did you mean 'recompile_limit'"):
        use()  # type: ignore[operator]


@pytest.mark.parametrize("value", [0, -1, True, "8", 2.0])
def test_impossible_value_is_refused_and_changes_nothing(value: object) -> None:
    with pytest.raises(ValueError, match=r"'recompile_limit' must be a positive integer"):
        config.recompile_limit = value
    assert config.recompile_limit == 8


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("raise_internal_errors", "no", "True or False"),
        ("capture_scalar_outputs", None, "True or False"),
        ("suppress_errors", 1, "True or False"),
        ("logs", None, "text"),
        ("artifact_cache_dir", 3, "text"),
        ("artifact_cache_size", "1 GB", "a positive integer"),
        ("reorderable_logging_functions", print, "a set of functions"),
        ("reorderable_logging_functions", ["print"], "a set of functions"),
    ],
)
def test_wrong_types_are_refused_and_change_nothing(name: str, value: object, expected: str) -> None:
    before = config.current()
    with pytest.raises(ValueError, match=f"setting '{name}' must be {expected}, not "), config.patch(name, value):
        pass
    assert config.current() == before


def test_functions_may_be_given_in_any_collection() -> None:
    with config.patch(reorderable_logging_functions=[print]):
        assert config.reorderable_logging_functions == {print}


def test_listeners_hear_of_changes() -> None:
    heard: list[int] = []
    end = config.on_change(lambda settings: heard.append(settings.recompile_limit))
    with config.patch(recompile_limit=4):
        pass
    end()
    config.recompile_limit = 8
    assert heard == [8, 4, 8]
