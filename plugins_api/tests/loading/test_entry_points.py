import importlib.metadata
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from graphwright_plugins.errors import PluginLoadError
from graphwright_plugins.loading.entry_points import (
    BACKEND_GROUP,
    PLUGIN_GROUP,
    FoundPlugin,
    check_target,
    disabled_plugins,
    find_misplaced,
    find_plugins,
    import_plugin,
)
from graphwright_plugins.loading.registry import unknown_backend


def install(site: Path, distribution: str, version: str, entry_points: str) -> None:
    """Lay down a distribution's metadata as pip does."""
    info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)


def test_finding_names_the_owner_and_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vendor_found.py").write_text("raise RuntimeError('imported')")
    install(tmp_path, "vendor-one", "2.5", f"[{BACKEND_GROUP}]\nvendor = vendor_found:backend\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (found,) = [plugin for plugin in find_plugins(BACKEND_GROUP) if plugin.name == "vendor"]
    assert (found.distribution, found.version, found.target) == ("vendor-one", "2.5", "vendor_found:backend")
    assert found.owner == "vendor-one 2.5"
    assert "vendor_found" not in sys.modules


def test_finding_sees_a_change_of_this_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "vendor-two", "1.0", f"[{BACKEND_GROUP}]\nfirst = vendor_two:a\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "first" in {plugin.name for plugin in find_plugins(BACKEND_GROUP)}
    (tmp_path / "vendor_two-1.0.dist-info" / "entry_points.txt").write_text(
        f"[{BACKEND_GROUP}]\nsecond = vendor_two:a\n"
    )
    names = {plugin.name for plugin in find_plugins(BACKEND_GROUP)}
    assert "second" in names
    assert "first" not in names


def test_one_name_in_two_distributions_is_found_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for distribution in ("vendor-three", "vendor-four"):
        # The same target too: a fork that kept the import name.
        install(tmp_path, distribution, "1.0", f"[{BACKEND_GROUP}]\ntwin = vendor_twin:backend\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    owners = {plugin.distribution for plugin in find_plugins(BACKEND_GROUP) if plugin.name == "twin"}
    assert owners == {"vendor-three", "vendor-four"}


def test_importing_gives_the_named_object(make_plugin: Callable[..., FoundPlugin]) -> None:
    target = object()
    assert import_plugin(make_plugin("good", target)) is target


class Panic(BaseException):
    """What bindings to other languages raise, past all that catches an Exception."""


@pytest.mark.parametrize(
    "error",
    [ImportError("no libvendor.so"), AssertionError("odd"), ValueError("bad"), SystemExit("no licence"), Panic("oh")],
)
def test_a_failing_import_names_plugin_owner_target_and_cause(
    make_plugin: Callable[..., FoundPlugin], error: BaseException
) -> None:
    with pytest.raises(PluginLoadError) as caught:
        import_plugin(make_plugin("bad", error))
    message = str(caught.value)
    for part in ("'bad'", "dist-a 1.2", "made_plugin_dist_a_bad:target", type(error).__name__, str(error)):
        assert part in message
    assert "GRAPHWRIGHT_DISABLED_PLUGINS=bad" in message
    assert caught.value.__cause__ is error
    assert (caught.value.distribution, caught.value.version) == ("dist-a", "1.2")


def test_a_missing_module_is_a_failing_import() -> None:
    entry_point = importlib.metadata.EntryPoint("gone", "no_such_module_here:x", BACKEND_GROUP)
    with pytest.raises(PluginLoadError, match="ModuleNotFoundError"):
        import_plugin(FoundPlugin("gone", BACKEND_GROUP, entry_point.value, None, None, entry_point))


def test_an_interrupt_is_none_of_the_plugins(make_plugin: Callable[..., FoundPlugin]) -> None:
    with pytest.raises(KeyboardInterrupt):
        import_plugin(make_plugin("bad", KeyboardInterrupt()))


@pytest.mark.parametrize("target", ["vendor backend", "vendor:", ":backend", "", "vendor:back end"])
def test_what_names_no_object_is_told_without_an_import(target: str) -> None:
    entry_point = importlib.metadata.EntryPoint("odd", target, BACKEND_GROUP)
    found = FoundPlugin("odd", BACKEND_GROUP, target, "dist-a", "1.2", entry_point)
    for look in (check_target, import_plugin):
        with pytest.raises(PluginLoadError, match=r"'odd' of dist-a 1\.2 .*which isn't of the form 'module:attribute'"):
            look(found)


def test_a_syntax_error_is_told_with_its_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vendor_syntax.py").write_text("x = 1\ndef (:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    entry_point = importlib.metadata.EntryPoint("odd", "vendor_syntax:x", BACKEND_GROUP)
    with pytest.raises(PluginLoadError, match=r"SyntaxError: invalid syntax in .+vendor_syntax\.py, line 2"):
        import_plugin(FoundPlugin("odd", BACKEND_GROUP, entry_point.value, None, None, entry_point))


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ("", "the authors of vendor-five"),
        ("Home-page: UNKNOWN\n", "the authors of vendor-five"),
        ("Author-email: a@b.example\n", "the authors of vendor-five (a@b.example)"),
        (
            "Author-email: a@b.example\nProject-URL: Homepage, https://x.example\n"
            "Project-URL: Issue Tracker, https://x.example/issues\n",
            "the authors of vendor-five (https://x.example/issues)",
        ),
        ("Project-URL: Docs, https://d.example\nHome-page: https://x.example\n", "(https://x.example)"),
    ],
)
def test_where_to_report_is_in_the_metadata(
    metadata: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "vendor-five", "1.0", f"[{BACKEND_GROUP}]\nfive = vendor_five:a\n")
    with (tmp_path / "vendor_five-1.0.dist-info" / "METADATA").open("a") as file:
        file.write(metadata)
    monkeypatch.syspath_prepend(str(tmp_path))
    (found,) = [plugin for plugin in find_plugins(BACKEND_GROUP) if plugin.name == "five"]
    assert found.authors.endswith(told)


@pytest.mark.parametrize("group", ["graphwright.backend", "graphwright-backends", PLUGIN_GROUP, "torch_dynamo_backend"])
def test_a_backend_in_a_group_nearly_right_is_found(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "vendor-six", "1.0", f"[{group}]\nsix = vendor_six:a\n[console_scripts]\nsix = vendor_six:a\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [(found.group, found.owner) for found in find_misplaced("six")] == [(group, "vendor-six 1.0")]
    assert find_misplaced("seven") == ()
    message = str(unknown_backend("six", ["eager"]))
    assert f"vendor-six 1.0 has an entry point 'six' in the group {group!r}" in message


def test_disabled_plugins_are_read_from_the_environment() -> None:
    assert disabled_plugins({"GRAPHWRIGHT_DISABLED_PLUGINS": " a, b ,,"}) == {"a", "b"}
    assert disabled_plugins({}) == frozenset()
