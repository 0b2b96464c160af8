"""Private torch names are used in each package's ``torch_compat.py`` only, so that a torch upgrade touches one file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [
    "core/src/graphwright",
    "plugins_api/src/graphwright_plugins",
    "backends/eager/src/graphwright_eager",
    "backends/inductor_gpu/src/graphwright_inductor_gpu",
    "backends/cudagraphs/src/graphwright_cudagraphs",
]
HOME = "torch_compat.py"


def dotted(node: ast.expr) -> str:
    """``torch.a._b`` as text when an expression is a plain chain of names, else an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := dotted(node.value)):
        return f"{base}.{node.attr}"
    return ""


def is_private(name: str) -> bool:
    root, *rest = name.split(".")
    return root == "torch" and any(part.startswith("_") and not part.endswith("__") for part in rest)


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each private torch name that is imported, or reached as an attribute of ``torch``."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [dotted(node)]
        yield from ((node.lineno, name) for name in names if is_private(name))


@pytest.mark.parametrize("package", PACKAGES)
def test_private_torch_names_stay_in_torch_compat(package: str) -> None:
    files = [path for path in sorted((ROOT / package).rglob("*.py")) if path.name != HOME]
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files
        for line, name in private_names(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, f"move to {HOME}:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import torch._guards", ["torch._guards"]),
        ("from torch import _C", ["torch._C"]),
        ("from torch.fx.experimental import _config", ["torch.fx.experimental._config"]),
        ("import torch\ntorch._C.f()", ["torch._C.f", "torch._C"]),
        ("import torch\ntorch.fx.Graph.__module__\nx._private", []),
        ("from torch.fx import Graph", []),
    ],
)
def test_what_counts_as_private(text: str, names: list[str]) -> None:
    assert [name for _, name in private_names(ast.parse(text))] == names
