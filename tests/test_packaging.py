"""What each distribution declares and ships: license, types, dependencies, and a build that needs setuptools only."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "core": "graphwright",
    "plugins_api": "graphwright_plugins",
    "backends/eager": "graphwright_eager",
    "backends/inductor_gpu": "graphwright_inductor_gpu",
    "backends/cudagraphs": "graphwright_cudagraphs",
}
MANIFEST = "graphwright_plugin.toml"  # what a backend can do, for those who list it
# Of our own distributions, the ones that each may need at run time.
OURS_ALLOWED = {
    "core": {"graphwright-plugins"},
    "plugins_api": set(),
    "backends/eager": {"graphwright-plugins"},
    "backends/inductor_gpu": {"graphwright-plugins"},
    "backends/cudagraphs": {"graphwright-plugins"},
}

every_package = pytest.mark.parametrize("folder", PACKAGES)


def load_pyproject(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0].lower() for requirement in requirements}


@every_package
def test_build_needs_setuptools_only(folder: str) -> None:
    # Anything more (torch above all) would be downloaded once more into every isolated build.
    assert names(load_pyproject(folder)["build-system"]["requires"]) == {"setuptools"}


@every_package
def test_depends_on_no_more_of_ours_than_allowed(folder: str) -> None:
    ours = {name for name in names(load_pyproject(folder)["project"]["dependencies"]) if name.startswith("graphwright")}
    assert ours == OURS_ALLOWED[folder]


@every_package
def test_declares_python_and_license(folder: str) -> None:
    project = load_pyproject(folder)["project"]
    assert project["requires-python"].startswith(">=3.11")
    assert project["license"] == "BSD-3-Clause"
    assert (ROOT / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@every_package
def test_has_readme_and_type_marker(folder: str) -> None:
    assert (ROOT / folder / "README.md").is_file()
    assert (ROOT / folder / "src" / PACKAGES[folder] / "py.typed").is_file()


@every_package
def test_declared_dependencies_are_pinned(folder: str) -> None:
    pinned = names([line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"])
    outside = {n for n in names(load_pyproject(folder)["project"]["dependencies"]) if not n.startswith("graphwright")}
    assert outside <= pinned


@pytest.mark.parametrize("folder", [*PACKAGES, "."])
def test_test_modules_are_in_no_package(folder: str) -> None:
    # With an __init__.py beside them, pytest would give test modules of different packages the same dotted name.
    modules = [*(ROOT / folder / "tests").rglob("test_*.py")]
    assert [path for path in modules if (path.parent / "__init__.py").exists()] == []


def build_wheel(folder: str, tmp_path: Path) -> zipfile.ZipFile:
    """Build from a copy, so that leftovers of earlier builds cannot hide a missing file."""
    copy = tmp_path / "source"
    leftovers = shutil.ignore_patterns("build", "*.egg-info", "*.so", "__pycache__")
    shutil.copytree(ROOT / folder, copy, ignore=leftovers)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(copy)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    return zipfile.ZipFile(wheel)


@pytest.mark.slow
@every_package
def test_wheel_ships_every_module_and_nothing_else(folder: str, tmp_path: Path) -> None:
    package, src = PACKAGES[folder], ROOT / folder / "src"
    with build_wheel(folder, tmp_path) as wheel:
        shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    sources = {path.relative_to(src).as_posix() for path in (src / package).rglob("*.py*") if path.suffix != ".pyc"}
    native = {name for name in shipped if re.fullmatch(r"graphwright/_native\.cpython-.*\.so", name)}
    assert len(native) == (1 if folder == "core" else 0)
    data = {f"{package}/{name}" for name in ("py.typed", MANIFEST) if (src / package / name).exists()}
    assert shipped - native == {name for name in sources if "__pycache__" not in name} | data


@pytest.mark.parametrize("folder", [folder for folder in PACKAGES if folder.startswith("backends/")])
def test_every_backend_says_what_it_can_do_and_ships_it(folder: str) -> None:
    pyproject, package = load_pyproject(folder), PACKAGES[folder]
    manifest = tomllib.loads((ROOT / folder / "src" / package / MANIFEST).read_text(encoding="utf-8"))
    assert manifest["backends"].keys() == pyproject["project"]["entry-points"]["graphwright.backends"].keys()
    assert MANIFEST in pyproject["tool"]["setuptools"]["package-data"][package]
