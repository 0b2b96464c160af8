"""Who may import whom, read from the sources with ``ast``: no cycle, no import from a higher layer.

Imports inside functions count (late ones hide cycles from every check at import time); imports under ``TYPE_CHECKING``
do not. The layers and the forbidden pairs are those of import-linter's contracts in the root ``pyproject.toml``.
"""

from __future__ import annotations

import ast
import graphlib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {
    "graphwright": ROOT / "core/src",
    "graphwright_plugins": ROOT / "plugins_api/src",
    "graphwright_eager": ROOT / "backends/eager/src",
    "graphwright_inductor_gpu": ROOT / "backends/inductor_gpu/src",
    "graphwright_cudagraphs": ROOT / "backends/cudagraphs/src",
}
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

ImportGraph = dict[str, set[str]]


def find_modules(src: Path, package: str) -> dict[str, Path]:
    """Dotted names and files of a package; a stub stands for a module written in C."""
    found = {}
    for path in sorted((src / package).rglob("*.py*")):
        if path.suffix not in {".py", ".pyi"}:
            continue
        parts = path.relative_to(src).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def import_statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import statement below a node, except those for type checkers only."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    children = node.orelse if isinstance(node, ast.If) and is_type_checking(node.test) else ast.iter_child_nodes(node)
    for child in children:
        yield from import_statements(child)


def imported_names(statement: ast.Import | ast.ImportFrom, importer: str, is_package: bool) -> Iterator[str]:
    """The dotted names a statement may load; for ``from a import b`` that is ``a.b``."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    base = statement.module or ""
    if statement.level:
        up = statement.level - (1 if is_package else 0)
        parents = importer.split(".")
        base = ".".join([*parents[: len(parents) - up], *([base] if base else [])])
    yield from (f"{base}.{alias.name}" for alias in statement.names)


def nearest_module(name: str, known: set[str]) -> str | None:
    """The longest prefix of a dotted name that is a module of ours."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or None


def build_graph(modules: dict[str, Path]) -> ImportGraph:
    known = set(modules)
    graph: ImportGraph = {}
    for module, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        is_package = path.stem == "__init__"
        names = (n for s in import_statements(tree) for n in imported_names(s, module, is_package))
        graph[module] = {target for n in names if (target := nearest_module(n, known)) and target != module}
    return graph


def find_cycle(graph: ImportGraph) -> list[str]:
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return []


@dataclass(frozen=True)
class Layers:
    """A layers contract: the height of each child of a container, and which children may not see their neighbours."""

    container: str
    height: dict[str, int]
    independent: frozenset[str]

    @classmethod
    def parse(cls, contract: dict[str, Any]) -> Layers:
        height, independent = {}, set()
        for level, line in enumerate(reversed(contract["layers"])):
            names = [name.strip().strip("()") for name in line.replace("|", ":").split(":")]
            height.update(dict.fromkeys(names, level))
            if "|" in line:
                independent.update(names)
        (container,) = contract["containers"]
        return cls(container, height, frozenset(independent))

    def child(self, module: str) -> str | None:
        head, _, rest = module.partition(".")
        return rest.split(".")[0] if head == self.container and rest else None

    def why_not(self, importer: str, imported: str) -> str | None:
        """Why an import breaks the layers, or None."""
        below, above = self.child(importer), self.child(imported)
        if below is None or above is None or below == above:
            return None
        for name in (below, above):
            if name not in self.height:
                return f"{self.container}.{name} has no layer: add it to [tool.importlinter] in pyproject.toml"
        if self.height[below] < self.height[above]:
            return f"{importer} imports {imported}, which is in a higher layer"
        if self.height[below] == self.height[above] and below in self.independent:
            return f"{importer} imports {imported}, its independent neighbour"
        return None


def layer_contracts() -> list[Layers]:
    return [Layers.parse(contract) for contract in CONTRACTS if contract["type"] == "layers"]


@pytest.fixture(scope="module")
def graph() -> ImportGraph:
    return build_graph({name: path for pkg, src in SOURCES.items() for name, path in find_modules(src, pkg).items()})


def test_every_package_is_found(graph: ImportGraph) -> None:
    assert {name.partition(".")[0] for name in graph} == set(SOURCES)


def test_no_import_cycle(graph: ImportGraph) -> None:
    cycle = find_cycle(graph)
    assert not cycle, "import cycle: " + " <- ".join(cycle)


def test_no_import_from_a_higher_layer(graph: ImportGraph) -> None:
    wrong = {
        reason
        for layers in layer_contracts()
        for importer, targets in graph.items()
        for imported in targets
        if (reason := layers.why_not(importer, imported))
    }
    assert not wrong, "\n".join(sorted(wrong))


@pytest.mark.parametrize("contract", [c for c in CONTRACTS if c["type"] == "forbidden"], ids=lambda c: c["name"])
def test_no_forbidden_package(graph: ImportGraph, contract: dict[str, Any]) -> None:
    wrong = [
        f"{importer} imports {imported}"
        for importer, targets in graph.items()
        for imported in targets
        if importer.partition(".")[0] in contract["source_modules"]
        and imported.partition(".")[0] in contract["forbidden_modules"]
    ]
    assert not wrong, f"{contract['name']}:\n" + "\n".join(sorted(wrong))


# The checks themselves, on small packages written for the purpose.


def write_package(folder: Path, **files: str) -> ImportGraph:
    (folder / "pkg/sub").mkdir(parents=True)
    for name in ("pkg/__init__", "pkg/sub/__init__"):
        (folder / f"{name}.py").touch()
    for name, text in files.items():
        (folder / "pkg" / f"{name.replace('__', '/')}.py").write_text(text)
    return build_graph(find_modules(folder, "pkg"))


def test_cycle_through_an_import_inside_a_function_is_seen(tmp_path: Path) -> None:
    graph = write_package(tmp_path, a="from pkg import b", b="def f():\n    from pkg.a import x")
    assert set(find_cycle(graph)) == {"pkg.a", "pkg.b"}


def test_import_for_type_checkers_is_no_edge(tmp_path: Path) -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg import a\nelse:\n    import pkg.c"
    graph = write_package(tmp_path, a="import pkg.b", b=text, c="")
    assert graph["pkg.b"] == {"pkg.c"}
    assert not find_cycle(graph)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("import pkg.a", "pkg.a"),
        ("from pkg import a", "pkg.a"),
        ("from pkg.a import name", "pkg.a"),
        ("from .. import a", "pkg.a"),
        ("from ..a import name", "pkg.a"),
        ("from . import name", "pkg.sub"),
        ("try:\n    import pkg.a\nexcept ImportError:\n    pass", "pkg.a"),
    ],
)
def test_import_forms(tmp_path: Path, text: str, target: str) -> None:
    graph = write_package(tmp_path, a="", sub__m=text)
    assert graph["pkg.sub.m"] == {target}


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("pkg.top", "pkg.low.x", True),
        ("pkg.low.x", "pkg.top", False),
        ("pkg.low.x", "pkg.low.y", True),
        ("pkg.left", "pkg.right", False),
        ("pkg.one", "pkg.two", True),
        ("pkg.unknown", "pkg.low", False),
        ("pkg", "pkg.top", True),
        ("other.low", "pkg.top", True),
    ],
)
def test_layer_rules(importer: str, imported: str, allowed: bool) -> None:
    layers = Layers.parse({"containers": ["pkg"], "layers": ["(top)", "left | right", "(one) : two", "low"]})
    assert (layers.why_not(importer, imported) is None) is allowed
