"""An outsider's backend in real use, and the page that explains it; how it loads is tested in `plugins_api/tests`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = ROOT / "tests/sample_plugin"
PAGE = ROOT / "docs/how-to/add-a-backend.md"
# A code block that begins with a comment naming its file.
INCLUDED = re.compile(r"```\w+\n# (tests/sample_plugin/\S+)\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the installed plugin and its metadata, kept out of this environment."""
    folder = tmp_path_factory.mktemp("site")
    # A copy, because a build leaves files next to its source.
    source = shutil.copytree(PLUGIN, tmp_path_factory.mktemp("source") / "plugin")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(folder), str(source)], check=True)
    return folder


def run_python(installed: Path, *arguments: str) -> str:
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    result = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        cwd=installed,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_backend_compiles_and_refuses_by_its_option(installed: Path) -> None:
    script = """
import graphwright, torch
def f(x): return x.sin().cos() + 1
x = torch.ones(3)
assert torch.equal(graphwright.compile(f, backend="sample", fullgraph=True)(x), f(x))
try:
    graphwright.compile(f, backend="sample", options={"most_calls": 1}, fullgraph=True)(x)
except graphwright.exc.BackendCompilerFailed as error:
    print(error)
"""
    assert "it has 3 calls, and option 'most_calls' allows 1" in run_python(installed, "-c", script)


@pytest.mark.timeout(300)  # all of the kit, in a process that imports torch anew and starts another
def test_backend_conforms(installed: Path) -> None:
    # Hypothesis' plugin would import and rewrite all of Hypothesis for its last report.
    plugins = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    arguments = ["-m", "pytest", "-q", *plugins, "-c", str(ROOT / "pyproject.toml")]
    run_python(installed, *arguments, "--rootdir", str(PLUGIN), str(PLUGIN / "tests"))


def test_code_on_the_page_is_the_plugins() -> None:
    blocks = INCLUDED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 5
    for path, code in blocks:
        assert code in (ROOT / path).read_text(encoding="utf-8"), f"{PAGE.name} shows other code than {path}"
