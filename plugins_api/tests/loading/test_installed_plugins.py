"""The sample plugin and its wrong neighbours, built and installed, seen from processes that know nothing else."""

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SAMPLE = Path(__file__).parents[3] / "tests" / "sample_plugin"
WRONG = ("broken_import", "duplicate_name", "wrong_api_version")

BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"

# Imports torch once and forks for each request, because the import takes seconds.
SERVER = """
import json, os, sys, traceback
import graphwright_plugins as gp

for line in sys.stdin:
    request = json.loads(line)
    if os.fork() == 0:
        try:
            sys.path[:0] = request["path"]
            os.environ.update(request["environment"])
            sys.argv[1:] = request["arguments"]
            exec(request["program"], {"gp": gp, "json": json, "sys": sys})
        except BaseException:
            print(json.dumps({"error": traceback.format_exc()}))
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.wait()
os._exit(0)  # an orderly end of torch takes seconds
"""


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one import folder for each package, built from a copy of its source and unpacked."""
    root = tmp_path_factory.mktemp("sites")
    shutil.copytree(SAMPLE, root / "src", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    for name in ("sample", *WRONG):
        source = root / "src" if name == "sample" else root / "src" / name
        # What pip runs to build it; `tests/test_sample_plugin.py` goes through pip itself.
        built = subprocess.run(
            [sys.executable, "-c", BUILD, str(root)], cwd=source, check=True, capture_output=True, text=True
        )
        zipfile.ZipFile(root / built.stdout.splitlines()[-1]).extractall(root / name)
    return root


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    """A process that runs programs in forks of itself."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        yield process


class Installed:
    """Runs programs where some of the packages are installed."""

    def __init__(self, sites: Path, server: subprocess.Popen[str]) -> None:
        self.sites = sites
        self.server = server

    def run(self, installed: list[str], program: str, *arguments: str, **environment: str) -> Any:
        """Run a program that prints one line, of JSON."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        path = [str(self.sites / name) for name in installed]
        request = {"path": path, "program": program, "arguments": arguments, "environment": environment}
        print(json.dumps(request), file=self.server.stdin)
        result = json.loads(self.server.stdout.readline())
        assert not isinstance(result, dict) or "error" not in result, result["error"]
        return result

    def resolve(self, installed: list[str], *asked: tuple[str, Any], **environment: str) -> Any:
        """What each name with these options resolves to, or its error."""
        return self.run(installed, RESOLVE, json.dumps(asked), **environment)


@pytest.fixture
def packages(sites: Path, server: subprocess.Popen[str]) -> Installed:
    return Installed(sites, server)


LIST = """
infos = gp.list_backends()
imported = sorted(name for name in sys.modules if name.startswith('graphwright_sample'))
rows = [[info.name, info.distribution, info.version, info.disabled, str(info.error) if info.error else None]
        for info in infos if info.name in ('sample', 'broken', 'old')]
print(json.dumps([imported, rows]))
"""


def test_listing_imports_nothing_and_shows_every_error(packages: Installed) -> None:
    imported, rows = packages.run(["sample", *WRONG], LIST)
    assert imported == []
    by_owner = {distribution: (name, error) for name, distribution, _version, _disabled, error in rows}
    assert set(by_owner) == {
        "graphwright-sample",
        "graphwright-sample-broken",
        "graphwright-sample-duplicate",
        "graphwright-sample-old",
    }
    assert "libsample.so.3: cannot open shared object file" in by_owner["graphwright-sample-broken"][1]
    assert "was written for plugin interface 0.9" in by_owner["graphwright-sample-old"][1]
    for owner in ("graphwright-sample", "graphwright-sample-duplicate"):
        assert "graphwright-sample 0.1.0" in by_owner[owner][1]
        assert "graphwright-sample-duplicate 0.1.0" in by_owner[owner][1]


MANIFESTS = """
infos = [info for info in gp.list_backends() if info.name in ('sample', 'broken', 'old')]
rows = {info.distribution: [str(info), info.manifest and info.manifest.file, str(info.known_error)] for info in infos}
imported = sorted(name for name in sys.modules if name.startswith('graphwright_sample'))
print(json.dumps([imported, rows]))
"""


def test_manifests_of_wheels_are_read_without_import(packages: Installed) -> None:
    imported, rows = packages.run(["sample", "broken_import", "wrong_api_version"], MANIFESTS)
    assert imported == []
    told, file, error = rows["graphwright-sample"]
    assert told.endswith(", strides, bitwise")
    assert file == str(packages.sites / "sample/graphwright_sample/graphwright_plugin.toml")
    assert error == "None"
    # Its import fails, and yet it is known what it is for.
    assert rows["graphwright-sample-broken"][0].startswith("broken (graphwright-sample-broken 0.1.0): npu; inference, ")
    assert "training" not in rows["graphwright-sample-broken"][0]
    assert "was written for plugin interface 0.9" in rows["graphwright-sample-old"][2]


def test_a_package_without_a_manifest_is_listed_as_such(packages: Installed) -> None:
    _, rows = packages.run(["duplicate_name"], MANIFESTS)
    assert "it ships no graphwright_plugin.toml" in rows["graphwright-sample-duplicate"][0]


RESOLVE = """
results = {}
for name, options in json.loads(sys.argv[1]):
    try:
        resolved = gp.resolve_backend(name, options)
        results[name] = [resolved.distribution, resolved.version, repr(resolved.options)]
    except gp.PluginError as error:
        results[name] = [type(error).__name__, str(error)]
print(json.dumps(results))
"""


def test_each_name_gives_its_backend_or_its_own_error(packages: Installed) -> None:
    installed = ["sample", "broken_import", "wrong_api_version"]
    results = packages.resolve(installed, ("broken", None), ("old", None), ("sample", {"most_calls": 5}))
    assert results["sample"] == ["graphwright-sample", "0.1.0", "SampleOptions(most_calls=5)"]
    kind, message = results["broken"]
    assert kind == "PluginLoadError"
    assert "plugin 'broken' of graphwright-sample-broken 0.1.0 can't be loaded" in message
    kind, message = results["old"]
    assert kind == "ApiVersionError"
    assert "update the plugin" in message


def test_a_duplicate_name_names_both_distributions(packages: Installed) -> None:
    kind, message = packages.resolve(["sample", "duplicate_name"], ("sample", None))["sample"]
    assert kind == "DuplicateBackend"
    assert "graphwright-sample 0.1.0" in message
    assert "graphwright-sample-duplicate 0.1.0" in message


def test_the_environment_blocks_a_plugin(packages: Installed) -> None:
    results = packages.resolve(["sample"], ("sample", None), GRAPHWRIGHT_DISABLED_PLUGINS="sample")
    assert results["sample"][0] == "BackendDisabled"


SOUND = """
import torch
info, = (info for info in gp.list_backends() if info.name == 'sample')
plugins = gp.load_plugins()
plugins.notify('graph_compiled', compile_id='0/0', graph_name='g', backend='b', duration_us=1.0)
plugins.notify('recompile', compile_id='0/1', function='f', filename='a.py', lineno=1, reasons=['n changed'])
from graphwright_sample.watch import watch
compiled = torch.compile(lambda x: x * 1 + 2, backend='sample')
print(json.dumps([str(info), plugins.names, watch.graphs, watch.reasons, compiled(torch.ones(2)).tolist()]))
"""


def test_a_sound_package_is_listed_hears_events_and_works_in_torch_compile(packages: Installed) -> None:
    listed, names, graphs, reasons, result = packages.run(["sample"], SOUND)
    assert listed.startswith("sample (graphwright-sample 0.1.0): by Sample Vendor; every device; inference, training")
    assert (names, graphs, reasons) == (["sample_watch"], 1, ["f: n changed"])
    assert result == [3.0, 3.0]


OWN_NAMES = """
gp.resolve_backend('eager')
gp.list_backends()
print(json.dumps('torch._dynamo' in sys.modules))
"""


def test_torch_compile_is_not_imported_for_our_own_names(packages: Installed) -> None:
    pytest.importorskip("graphwright_eager")
    assert packages.run([], OWN_NAMES) is False
