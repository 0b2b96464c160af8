"""Makes a failing program smaller: drops statements and arguments' changes as long as it fails in the same way."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator


def minimise(source: str, difference: str, failure_of: Callable[[str], str | None], rounds: int = 400) -> str:
    """A smaller program that fails alike.

    Args:
        source: the program.
        difference: how it fails.
        failure_of: runs a program and says how it fails.
        rounds: how many programs may be tried.
    """
    wanted = _kind(difference)
    tree = ast.parse(source)
    progress = True
    while progress and rounds > 0:
        progress = False
        for candidate in _smaller(tree):
            rounds -= 1
            if rounds <= 0:
                break
            text = ast.unparse(ast.fix_missing_locations(candidate))
            try:
                compile(text, "<candidate>", "exec")
                failure = failure_of(text)
            except Exception:
                continue
            if failure is not None and _kind(failure) == wanted:
                tree, progress = ast.parse(text), True
                break
    return ast.unparse(tree)


def _kind(difference: str) -> str:
    """A difference without what may change while a program shrinks."""
    text = re.sub(r"call \d \(inputs_\d\)|0x[0-9a-f]+|\d+|'[^']*'", "", difference)
    return text[:45]


def _smaller(tree: ast.Module) -> Iterator[ast.Module]:
    places = [
        (number, field, index)
        for number, node in enumerate(ast.walk(tree))
        for field in ("body", "orelse", "finalbody", "handlers")
        for index in range(len(getattr(node, field, None) or ()) if isinstance(getattr(node, field, None), list) else 0)
    ]
    for number, field, index in reversed(places):
        yield from _without(tree, number, field, index)
    for number, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.expr) and not isinstance(node, (ast.Name, ast.Constant)):
            yield from _simplified(tree, number)


def _without(tree: ast.Module, number: int, field: str, index: int) -> Iterator[ast.Module]:
    """Without one statement; or with what is inside of it in its place."""
    smaller = copy.deepcopy(tree)
    node = list(ast.walk(smaller))[number]
    statements = getattr(node, field)
    removed = statements.pop(index)
    if not statements and field == "body":
        if isinstance(removed, ast.Pass):
            return
        statements.append(ast.Pass())
    if isinstance(removed, (ast.Import, ast.ImportFrom)):
        return
    yield smaller
    inner = getattr(removed, "body", None)
    if isinstance(inner, list) and isinstance(removed, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
        smaller = copy.deepcopy(tree)
        statements = getattr(list(ast.walk(smaller))[number], field)
        statements[index : index + 1] = copy.deepcopy(inner)
        yield smaller


def _simplified(tree: ast.Module, number: int) -> Iterator[ast.Module]:
    """With an expression replaced by one of its parts."""
    target = list(ast.walk(tree))[number]
    parts = [child for child in ast.iter_child_nodes(target) if isinstance(child, ast.expr)]
    for part in parts:
        smaller = copy.deepcopy(tree)
        doomed = list(ast.walk(smaller))[number]
        for parent in ast.walk(smaller):
            for name, value in ast.iter_fields(parent):
                if value is doomed:
                    setattr(parent, name, copy.deepcopy(part))
                elif isinstance(value, list) and any(item is doomed for item in value):
                    value[[item is doomed for item in value].index(True)] = copy.deepcopy(part)
        yield smaller
