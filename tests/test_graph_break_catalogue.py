"""No graph break without explanation, remedy, page, and a program that a test runs."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from graphwright.graph_breaks import CATALOGUE

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "graph-breaks"
PROGRAMS = ROOT / "core" / "tests" / "graph_breaks" / "programs"
SOURCES = ROOT / "core" / "src" / "graphwright"


@pytest.fixture(scope="module")
def wanted_pages():
    return runpy.run_path(str(ROOT / "docs" / "make_graph_break_pages.py"))["pages"]()


@pytest.mark.parametrize("gw_id", CATALOGUE)
def test_an_id_has_title_explanation_and_remedy(gw_id):
    kind = CATALOGUE[gw_id]
    assert re.fullmatch(r"GW\d{4}", gw_id)
    assert kind.title
    assert kind.title[-1] != "."
    assert kind.explanation.endswith(".")
    assert kind.remedy.endswith(".")


def test_ids_and_titles_are_used_once():
    assert len({kind.title for kind in CATALOGUE.values()}) == len(CATALOGUE)
    assert [*CATALOGUE] == sorted(CATALOGUE)


@pytest.mark.parametrize("gw_id", CATALOGUE)
def test_an_id_has_a_program_that_marks_its_line(gw_id):
    assert (PROGRAMS / f"{gw_id}.py").read_text().count("# here") == 1


def test_pages_are_those_that_the_catalogue_makes(wanted_pages):
    found = {path.name: path.read_text(encoding="utf-8") for path in PAGES.iterdir()}
    assert found == wanted_pages, "run python docs/make_graph_break_pages.py"


def test_there_is_no_program_without_an_id():
    assert {path.stem for path in PROGRAMS.glob("*.py")} == {*CATALOGUE}


def test_every_kind_is_raised_somewhere():
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py") if path.name != "graph_breaks.py")
    names = re.findall(r"^([A-Z_]+) = _kind\(", (SOURCES / "graph_breaks.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(names) == len(CATALOGUE)
    assert [name for name in names if f"gb.{name}" not in text] == []
