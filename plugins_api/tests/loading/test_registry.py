import importlib.metadata
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from graphwright_plugins import Capabilities, Unavailable, list_backends, load_backend, refresh
from graphwright_plugins.errors import (
    BackendContractError,
    BackendDisabled,
    BackendUnavailable,
    DuplicateBackend,
    PluginLoadError,
    PluginWarning,
    UnknownBackend,
)
from graphwright_plugins.loading.entry_points import BACKEND_GROUP, TORCH_BACKEND_GROUP, FoundPlugin
from graphwright_plugins.loading.registry import BackendRegistry, unknown_backend

MakePlugin = Callable[..., FoundPlugin]


class Named:
    capabilities = Capabilities()

    def __init__(self, name: str) -> None:
        self.name = name

    def compile(self, graph: Any, example_inputs: Any, options: Any) -> Any:
        return graph.forward


def test_a_backend_is_loaded_once(make_plugin: MakePlugin) -> None:
    backend = Named("one")
    registry = BackendRegistry([make_plugin("one", backend)])
    assert registry.load("one").backend is backend
    assert registry.load("one") is registry.load("one")


def test_unknown_name_lists_nearest_installed_and_how_to_get_more(make_plugin: MakePlugin) -> None:
    registry = BackendRegistry([make_plugin("turbo", Named("turbo")), make_plugin("plain", Named("plain"))])
    with pytest.raises(UnknownBackend) as caught:
        registry.load("trubo")
    message = str(caught.value)
    assert "no backend is called 'trubo'. Did you mean 'turbo'? Installed are: 'plain', 'turbo'." in message
    assert "pip install" in message
    assert "graphwright-eager" in message
    assert (caught.value.name, caught.value.known) == ("trubo", ("plain", "turbo"))


def test_two_owners_of_one_name_are_both_named(make_plugin: MakePlugin) -> None:
    registry = BackendRegistry(
        [make_plugin("x", Named("x"), "dist-a", "1.0"), make_plugin("x", Named("x"), "dist-b", "2.0")]
    )
    with pytest.raises(DuplicateBackend, match=r"'x' is offered by dist-a 1\.0 and by dist-b 2\.0") as caught:
        registry.load("x")
    assert caught.value.owners == ("dist-a 1.0", "dist-b 2.0")


def test_a_duplicate_does_not_stop_the_others(make_plugin: MakePlugin) -> None:
    registry = BackendRegistry(
        [make_plugin("x", 1, "dist-a"), make_plugin("x", 1, "dist-b"), make_plugin("y", Named("y"))]
    )
    assert registry.load("y").backend.name == "y"


def test_a_blocked_backend_says_by_what(make_plugin: MakePlugin) -> None:
    registry = BackendRegistry([make_plugin("x", Named("x"))], disabled=frozenset({"x"}))
    assert registry.names == ()
    with pytest.raises(BackendDisabled, match="GRAPHWRIGHT_DISABLED_PLUGINS"):
        registry.load("x")


def test_the_environment_blocks_an_installed_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("graphwright_eager")
    monkeypatch.setenv("GRAPHWRIGHT_DISABLED_PLUGINS", "eager")
    refresh()
    with pytest.raises(BackendDisabled):
        load_backend("eager")
    assert load_backend("aot_eager").name == "aot_eager"
    (info,) = [info for info in list_backends() if info.name == "eager"]
    assert info.disabled


def test_names_in_the_environment_that_block_nothing_are_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("graphwright_eager")
    monkeypatch.setenv("GRAPHWRIGHT_DISABLED_PLUGINS", "aot_eager,aot_eagre,Graphwright_Eager")
    refresh()
    with pytest.warns(PluginWarning) as caught:
        load_backend("eager")
    list_backends()  # a second warning would be an error
    (warning,) = caught
    told = str(warning.message)
    assert told.startswith(
        "GRAPHWRIGHT_DISABLED_PLUGINS has 'Graphwright_Eager', which is a distribution and blocks nothing: name its "
        "plugins, 'aot_eager', 'eager'"
    )
    assert (
        "GRAPHWRIGHT_DISABLED_PLUGINS has 'aot_eagre', which no installed plugin is called. Did you mean 'aot_e" in told
    )


def test_listing_imports_nothing_and_reading_the_error_does(make_plugin: MakePlugin) -> None:
    imported = []

    class Probe(Named):
        def __getattribute__(self, name: str) -> Any:
            imported.append(name)
            return super().__getattribute__(name)

    registry = BackendRegistry([make_plugin("good", Probe("good")), make_plugin("bad", ImportError("no library"))])
    imported.clear()
    bad, good = registry.infos()
    assert not imported
    assert repr(good).startswith("BackendInfo(name='good', distribution='dist-a', version='1.2'")
    assert str(good) == (
        "good (dist-a 1.2): it ships no graphwright_plugin.toml, so only importing it tells what it can do"
    )
    assert (good.manifest, good.known_error) == (None, None)
    assert not imported
    assert good.error is None
    assert imported
    assert isinstance(bad.error, PluginLoadError)
    assert "no library" in str(bad.error)


def test_the_error_tells_what_is_unavailable(make_plugin: MakePlugin) -> None:
    class Absent(Named):
        def available(self) -> Unavailable | None:
            return Unavailable("no card answered", "Seat the card.")

    class Odd(Named):
        def available(self) -> Any:
            return False

    rows = BackendRegistry([make_plugin("absent", Absent("absent")), make_plugin("odd", Odd("odd"))]).infos()
    assert [row.known_error for row in rows] == [None, None]
    absent, odd = (row.error for row in rows)
    assert isinstance(absent, BackendUnavailable)
    assert str(absent) == "backend 'absent' of dist-a 1.2 can't work here: no card answered. Seat the card."
    assert isinstance(odd, BackendContractError)


def test_what_is_no_reference_is_known_without_an_import(make_plugin: MakePlugin) -> None:
    found = make_plugin("odd", Named("odd"))
    entry_point = importlib.metadata.EntryPoint("odd", "two words", BACKEND_GROUP)
    (row,) = BackendRegistry([replace(found, target="two words", entry_point=entry_point)]).infos()
    assert isinstance(row.known_error, PluginLoadError)
    assert "two words" in str(row)


def test_every_error_of_a_plugin_is_told_and_none_escapes(make_plugin: MakePlugin) -> None:
    class Raising(Named):
        @property
        def modes(self) -> Any:
            raise RuntimeError("no card")

    rows = BackendRegistry([make_plugin("exits", SystemExit(3)), make_plugin("raises", Raising("raises"))]).infos()
    exits, raises = (row.error for row in rows)
    assert isinstance(exits, PluginLoadError)
    assert isinstance(raises, BackendContractError)
    assert "'modes' that raised RuntimeError: no card" in str(raises)


def test_backends_of_torchs_own_tests_are_not_suggested() -> None:
    error = unknown_backend("relu_compile", ["eager", "relu_compile_error_TESTING_ONLY"])
    assert "TESTING" not in str(error)
    assert error.known == ("eager", "relu_compile_error_TESTING_ONLY")


def test_every_owner_of_a_duplicate_is_listed_with_the_error(make_plugin: MakePlugin) -> None:
    registry = BackendRegistry([make_plugin("x", 1, "dist-a"), make_plugin("x", 1, "dist-b")])
    infos = registry.infos()
    assert [info.distribution for info in infos] == ["dist-a", "dist-b"]
    assert all(isinstance(info.error, DuplicateBackend) for info in infos)
    assert all(isinstance(info.known_error, DuplicateBackend) for info in infos)
    assert "is offered by dist-a 1.2 and by dist-b 1.2" in str(infos[0])


def test_a_failed_import_is_tried_again(make_plugin: MakePlugin) -> None:
    plugin = make_plugin("late", ImportError("not yet"))
    registry = BackendRegistry([plugin])
    with pytest.raises(PluginLoadError):
        registry.load("late")
    make_plugin("late", Named("late"))
    assert registry.load("late").backend.name == "late"


def test_what_torch_calls_a_backend_is_only_imported(make_plugin: MakePlugin) -> None:
    plugin = make_plugin("theirs", lambda gm, inputs: gm, group=TORCH_BACKEND_GROUP)
    (info,) = BackendRegistry([plugin]).infos()
    assert info.error is None
    assert info.group == TORCH_BACKEND_GROUP
    assert info.manifest is None
    assert "made for torch.compile" in str(info)


def test_installed_backends_are_listed() -> None:
    pytest.importorskip("graphwright_eager")
    listed = {info.name: info for info in list_backends()}
    assert listed["eager"].distribution == "graphwright-eager"
    assert listed["eager"].error is None
