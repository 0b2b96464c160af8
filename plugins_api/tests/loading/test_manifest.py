"""What a package says of its backends in a data file, and what comes of one that is missing, wrong or untrue."""

import importlib.metadata
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from graphwright_plugins import BackendManifest, Capabilities, ManifestError, Tolerance, resolve_backend
from graphwright_plugins.errors import ApiVersionError
from graphwright_plugins.loading.entry_points import BACKEND_GROUP, FoundPlugin
from graphwright_plugins.loading.manifest import parse_manifest
from graphwright_plugins.loading.registry import BackendInfo, BackendRegistry
from graphwright_plugins.testing import LoadingTests

BACKEND = """
from graphwright_plugins import Capabilities

class Made:
    name = "made"
    capabilities = Capabilities(devices=frozenset({"npu"}), training=False)

    def compile(self, graph, example_inputs, options):
        return graph.forward

made = Made()
"""
TRUE = '[backends.made]\ndevices = ["npu"]\ntraining = false\n'

Install = Callable[..., FoundPlugin]


def entry_point(target: str) -> FoundPlugin:
    return FoundPlugin(
        "made", BACKEND_GROUP, target, "made-dist", "3.1", importlib.metadata.EntryPoint("made", target, BACKEND_GROUP)
    )


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make a package of the test's name that holds a backend, with these files in it."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(manifest: str | None, package: str = "made_pkg", at: str = "", backend: str = BACKEND) -> FoundPlugin:
        folder = tmp_path / package
        (folder / "inner").mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "inner/__init__.py").touch()
        (folder / "inner/backend.py").write_text(backend)
        if manifest is not None:
            (folder / at / "graphwright_plugin.toml").write_text(manifest)
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            monkeypatch.delitem(sys.modules, name)
        return entry_point(f"{package}.inner.backend:made")

    return make


def listed(found: FoundPlugin) -> BackendInfo:
    (info,) = BackendRegistry([found]).infos()
    return info


@pytest.mark.parametrize("at", ["", "inner"])
def test_devices_and_capabilities_are_known_before_any_import(install: Install, at: str) -> None:
    found = install(TRUE + 'vendor = "Made"\n', at=at)
    info = listed(found)
    assert info.manifest is not None
    assert (info.manifest.vendor, info.manifest.api_version, info.manifest.caching) == ("Made", (1, 0), False)
    assert info.manifest.capabilities == Capabilities(devices=frozenset({"npu"}), training=False)
    assert str(info).startswith("made (made-dist 3.1): by Made; npu; inference, mutation, aliasing")
    assert not [name for name in sys.modules if name.startswith("made_pkg")]
    assert info.error is None


def test_a_package_that_ships_none_says_so(install: Install) -> None:
    info = listed(install(None))
    assert (info.manifest, info.known_error) == (None, None)
    assert "ships no graphwright_plugin.toml" in str(info)
    assert info.error is None


def test_the_file_nearest_to_the_module_counts(install: Install, tmp_path: Path) -> None:
    found = install(TRUE, at="inner")
    (tmp_path / "made_pkg/graphwright_plugin.toml").write_text('[backends.made]\ndevices = ["other"]\n')
    manifest = listed(found).manifest
    assert manifest is not None
    assert manifest.file == str(tmp_path / "made_pkg/inner/graphwright_plugin.toml")


def test_a_namespace_package_is_no_obstacle(install: Install, tmp_path: Path) -> None:
    found = install(TRUE, at="inner")
    (tmp_path / "made_pkg/__init__.py").unlink()
    info = listed(found)
    assert info.manifest is not None
    assert info.error is None


def test_it_is_read_from_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "made.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_pkg/__init__.py", "")
        file.writestr("zipped_pkg/graphwright_plugin.toml", TRUE)
    monkeypatch.syspath_prepend(archive)
    manifest = listed(entry_point("zipped_pkg:made")).manifest
    assert manifest is not None
    assert manifest.capabilities.devices == {"npu"}


def test_all_values_that_capabilities_have(install: Install) -> None:
    text = """
[backends.made]
api_version = [1, 0]
caching = true
devices = []
dtypes = ["float32", "bool"]
dynamic_shapes = false
[backends.made.tolerances]
float32 = { rtol = 1, atol = 1e-3 }
"""
    manifest = listed(install(text)).manifest
    assert manifest is not None
    assert manifest == BackendManifest(
        manifest.file,
        capabilities=Capabilities(
            devices=frozenset(),
            dtypes=frozenset({torch.float32, torch.bool}),
            dynamic_shapes=False,
            tolerances={torch.float32: Tolerance(1.0, 1e-3)},
        ),
        caching=True,
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[backends.made\n", "Expected ']'"),
        ("\0", ""),
        ("", "has no table [backends.made]; its tables of backends are: none"),
        ("backends = 1\n", "has no table [backends.made]"),
        ("[backends.mode]\n", "its tables of backends are: 'mode'"),
        ("backends.made = 1\n", "isn't a table"),
        ("[backends.made]\ntrainings = true\n", "unknown key 'trainings' in [backends.made]. Did you mean 'training'"),
        ("[backends.made]\ntraining = 1\n", "'training' in [backends.made], which must be true or false, not 1"),
        ("[backends.made]\ndevices = 'npu'\n", "'devices' in [backends.made], which must be a list of texts"),
        ("[backends.made]\ndtypes = ['float33']\n", "'float33', which is no dtype"),
        ("[backends.made]\napi_version = '1.0'\n", "such as [1, 0], not '1.0'"),
        ("[backends.made]\napi_version = [true, 0]\n", "such as [1, 0]"),
        ("[backends.made]\nvendor = 3\n", "must be a text, not 3"),
        ("[backends.made.tolerances]\nfloat32 = 1\n", "must have { rtol = ..., atol = ... } for float32"),
        ("[backends.made.tolerances]\nfloat32 = { rtol = 'x', atol = 1 }\n", "must have numbers for float32"),
    ],
)
def test_a_wrong_file_is_an_error_of_its_own_backend_only(
    install: Install, make_plugin: Install, text: str, told: str
) -> None:
    found = install(text)
    neighbour = make_plugin("good", None)
    wrong, good = sorted(BackendRegistry([found, neighbour]).infos(), key=lambda info: info.name == "good")
    assert wrong.manifest is None
    assert isinstance(wrong.known_error, ManifestError)
    assert told in str(wrong.known_error)
    assert str(wrong.known_error) in str(wrong)
    assert wrong.known_error.file.endswith("made_pkg/graphwright_plugin.toml")
    assert wrong.known_error.file in str(wrong.known_error)
    assert not [name for name in sys.modules if name.startswith("made_pkg")]
    assert isinstance(wrong.error, ManifestError)
    assert good.known_error is None


def test_a_file_that_is_not_text_is_an_error(install: Install, tmp_path: Path) -> None:
    found = install(TRUE)
    (tmp_path / "made_pkg/graphwright_plugin.toml").write_bytes(b"\xff\xfe")
    assert isinstance(listed(found).known_error, ManifestError)


def test_a_file_that_cannot_be_read_is_an_error(install: Install, tmp_path: Path) -> None:
    found = install(None)
    (tmp_path / "made_pkg/graphwright_plugin.toml").mkdir()
    error = listed(found).known_error
    assert isinstance(error, ManifestError)
    assert "can't be read: Is a directory" in str(error)


@pytest.mark.parametrize(
    ("untrue", "told"),
    [
        (TRUE.replace("npu", "cuda"), '\'devices\' is ["cuda"] in the file and ["npu"] on the object'),
        ("[backends.made]\ntraining = false\n", "'devices' is absent, which means every device in the file and"),
        (TRUE + "bitwise = true\n", "'bitwise' is true in the file and false on the object"),
        (TRUE + "caching = true\n", "'caching' is true in the file and false on the object"),
        (TRUE + 'dtypes = ["bool"]\n', '\'dtypes\' is ["bool"] in the file and ["bfloat16", "bool",'),
        (TRUE + "tolerances.half = { rtol = 1, atol = 2 }\n", "{ float16 = { rtol = 1.0, atol = 2.0 } } in the file"),
    ],
)
def test_a_file_that_contradicts_the_object_is_refused_when_it_is_loaded(
    install: Install, untrue: str, told: str
) -> None:
    found = install(untrue)
    assert listed(found).known_error is None
    with pytest.raises(ManifestError) as caught:
        BackendRegistry([found]).load("made")
    message = str(caught.value)
    assert told in message
    assert "backend 'made' of made-dist 3.1" in message
    assert caught.value.file in message
    assert "made_pkg.inner.backend:made" in message
    assert caught.value.distribution == "made-dist"


def test_the_interface_version_is_told_without_import(install: Install) -> None:
    found = install(TRUE + "api_version = [0, 9]\n", backend="raise AssertionError('imported')")
    error = listed(found).known_error
    assert isinstance(error, ApiVersionError)
    assert "was written for plugin interface 0.9" in str(error)
    with pytest.raises(ApiVersionError):
        BackendRegistry([found]).load("made")


def test_keys_of_a_later_interface_are_no_mistake(install: Install) -> None:
    error = listed(install(TRUE + "api_version = [1, 999]\nquantum = true\n")).known_error
    assert isinstance(error, ApiVersionError)
    assert "update graphwright-plugins" in str(error)


def test_the_sample_in_the_contracts_page_is_a_manifest() -> None:
    page = (Path(__file__).parents[3] / "docs/backends/contract.md").read_text(encoding="utf-8")
    (sample,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    manifest = parse_manifest("contract.md", sample.encode(), "mine")
    assert str(manifest).startswith("by Mine Inc.; npu; inference, mutation")
    assert manifest.capabilities.tolerances == {torch.float16: Tolerance(5e-3, 5e-3)}


def test_the_kit_catches_a_manifest_that_is_true_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("graphwright_eager")
    resolved = resolve_backend("eager")
    monkeypatch.setattr(type(resolved.backend), "capabilities", Capabilities())
    with pytest.raises(AssertionError, match=r"'bitwise' is true in the file and false on the object"):
        LoadingTests().test_manifest(resolved)
