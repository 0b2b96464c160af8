"""The sample plugin and its wrong neighbours, really installed, seen from a fresh process."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SAMPLE = Path(__file__).parents[2] / "tests" / "sample_plugin"
WRONG = ("broken_import", "duplicate_name", "wrong_api_version")


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one import folder for each package, built and installed by pip from a copy of its source."""
    root = tmp_path_factory.mktemp("sites")
    shutil.copytree(SAMPLE, root / "src", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    for name in ("sample", *WRONG):
        source = root / "src" if name == "sample" else root / "src" / name
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*install, "--target", str(root / name), str(source)], check=True, capture_output=True)
    return root


def run(sites: Path, installed: list[str], program: str, *arguments: str, **environment: str) -> Any:
    """Run a program where these packages are installed; it prints JSON."""
    path = os.pathsep.join(str(sites / name) for name in installed)
    result = subprocess.run(
        [sys.executable, "-c", f"import json, sys\nimport graphwright_plugins as gp\n{program}", *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


LIST = """
infos = gp.list_backends()
imported = sorted(name for name in sys.modules if name.startswith('graphwright_sample'))
rows = [[info.name, info.distribution, info.version, info.disabled, str(info.error) if info.error else None]
        for info in infos if info.name in ('sample', 'broken', 'old')]
print(json.dumps([imported, rows]))
"""


def test_listing_imports_nothing_and_shows_every_error(sites: Path) -> None:
    imported, rows = run(sites, ["sample", *WRONG], LIST)
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


def resolve(sites: Path, installed: list[str], *asked: tuple[str, Any], **environment: str) -> Any:
    return run(sites, installed, RESOLVE, json.dumps(asked), **environment)


def test_each_name_gives_its_backend_or_its_own_error(sites: Path) -> None:
    installed = ["sample", "broken_import", "wrong_api_version"]
    results = resolve(sites, installed, ("broken", None), ("old", None), ("sample", {"most_calls": 5}))
    assert results["sample"] == ["graphwright-sample", "0.1.0", "SampleOptions(most_calls=5)"]
    kind, message = results["broken"]
    assert kind == "PluginLoadError"
    assert "plugin 'broken' of graphwright-sample-broken 0.1.0 can't be loaded" in message
    kind, message = results["old"]
    assert kind == "ApiVersionError"
    assert "update the plugin" in message


def test_a_duplicate_name_names_both_distributions(sites: Path) -> None:
    kind, message = resolve(sites, ["sample", "duplicate_name"], ("sample", None))["sample"]
    assert kind == "DuplicateBackend"
    assert "graphwright-sample 0.1.0" in message
    assert "graphwright-sample-duplicate 0.1.0" in message


def test_the_environment_blocks_a_plugin(sites: Path) -> None:
    results = resolve(sites, ["sample"], ("sample", None), GRAPHWRIGHT_DISABLED_PLUGINS="sample")
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


def test_a_sound_package_is_listed_hears_events_and_works_in_torch_compile(sites: Path) -> None:
    listed, names, graphs, reasons, result = run(sites, ["sample"], SOUND)
    assert listed == "sample (graphwright-sample 0.1.0)"
    assert (names, graphs, reasons) == (["sample_watch"], 1, ["f: n changed"])
    assert result == [3.0, 3.0]
