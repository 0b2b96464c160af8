"""Writes docs/graph-breaks/: one page for each graph break of the catalogue, and an index.

    python docs/make_graph_break_pages.py

The text comes from `graphwright.graph_breaks`, the example from the program that the tests run for the id.
"""

from __future__ import annotations

from pathlib import Path

from graphwright.graph_breaks import CATALOGUE, GraphBreakKind

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "graph-breaks"
PROGRAMS = ROOT / "core" / "tests" / "graph_breaks" / "programs"


def page(kind: GraphBreakKind) -> str:
    """The page of one id."""
    program = (PROGRAMS / f"{kind.gw_id}.py").read_text(encoding="utf-8").rstrip()
    return (
        f"# {kind.gw_id}: {kind.title}\n\n"
        f"{kind.explanation}\n\n"
        f"**What to do:** {kind.remedy}\n\n"
        f"## Example\n\nThe graph of `example` breaks at the line marked `here`:\n\n"
        f"```python\n{program}\n```\n\n"
        "Called as `graphwright.compile(example)(*ARGUMENTS)` it does what it does without Graphwright: the marked\n"
        "line runs in eager, and what comes before and after it is captured where it can be. With `fullgraph=True`\n"
        "the line is reported with this id.\n"
    )


def index() -> str:
    """The page that lists all ids."""
    rows = "".join(f"| [{kind.gw_id}]({kind.gw_id}.md) | {kind.title} |\n" for kind in CATALOGUE.values())
    return (
        "# Graph breaks\n\n"
        "What can stop capture, each under an id that never changes. `graphwright.explain(fn)(*args)` and\n"
        "`GRAPHWRIGHT_LOGS=graph_breaks` name the ids that a program meets.\n\n"
        f"| Id | What is met |\n| --- | --- |\n{rows}"
    )


def pages() -> dict[str, str]:
    """All pages by file name."""
    return {"README.md": index(), **{f"{gw_id}.md": page(kind) for gw_id, kind in CATALOGUE.items()}}


def main() -> None:
    """Write all pages."""
    PAGES.mkdir(exist_ok=True)
    for name, text in pages().items():
        (PAGES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
