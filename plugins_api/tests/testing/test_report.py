import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphwright_plugins.testing.__main__ import main
from graphwright_plugins.testing.outcomes import KitReport, TestOutcome
from graphwright_plugins.testing.report import as_json, as_markdown, summary
from graphwright_plugins.testing.tested_options import TestedOptions
from graphwright_plugins.testing.themes import Theme

REPORT = KitReport(
    backend="mine",
    distribution="my-package",
    version="1.2",
    torch="2.13",
    python="3.11",
    tests=(
        TestOutcome(Theme.LOADING, "TestLoading::test_a", "passed"),
        TestOutcome(Theme.LOADING, "TestLoading::test_b", "not_run", "there is no fork"),
        TestOutcome(Theme.MUTATION, "TestMutation::test_c[x]", "failed", "AssertionError: output 0"),
        TestOutcome(Theme.MUTATION, "TestMutation::test_c[y]", "failed", "AssertionError: output 0"),
        TestOutcome(Theme.MUTATION, "TestMutation::test_d", "known_failure", "never: it has no memory"),
        TestOutcome(Theme.RANDOM_NUMBERS, "TestRandom::test_e", "not_supported", "no random numbers"),
    ),
    options=TestedOptions(("defaults", "tile=8"), ("deploy",), any=True),
)

MODULE = '''
from dataclasses import dataclass

import pytest
from graphwright_plugins import Capabilities, testing


@dataclass(frozen=True)
class Options:
    """Options."""

    tile: int = 64
    """Nothing."""


class Mine:
    """Forgets changes of inputs and draws no random numbers."""

    name = "mine"
    capabilities = Capabilities(random=False)
    options_type = Options
    modes = {"small": {"tile": 8}, "large": {"tile": 512}}

    def compile(self, graph, example_inputs, options):
        return lambda *args: graph.forward(*(arg.clone() for arg in args))


class Other(Mine):
    name = "other"


@pytest.fixture
def backend():
    return Mine()


class TestMine(testing.ConformanceKit):
    class TestMutation(testing.MutationTests):
        known_failures = {
            "test_changed_input": testing.KnownFailure("notimpl", "nothing is copied back"),
            "test_changed_metadata": testing.KnownFailure("notimpl", "nothing is copied back"),
            "test_unchanged_inputs": testing.KnownFailure("never", "an entry that isn't true"),
        }


class TestTiles(testing.OptionTests):
    option_sets = {"small": {"tile": 8}}


def test_of_their_own():
    raise AssertionError
'''

SCRIPT = """
import sys
from graphwright_plugins.testing.__main__ import main
themes = [word for theme in (2, 5, 10) for word in ("--theme", str(theme))]
first = main(["report", "--backend", "mine", "--tests", sys.argv[1], "--format", "json", *themes])
print("---")
second = main(["report", "--backend", "other", "--tests", sys.argv[1], "--theme", "10"])
third = main(["report", "--backend", "mine", "--tests", sys.argv[2], "--theme", "2"])
print(first, second, third)
"""


def test_markdown_has_counts_and_reasons() -> None:
    text = as_markdown(REPORT)
    assert text.startswith("# Conformance of `mine` (my-package 1.2)\n")
    assert "| 5. Mutation |  |  | 1 |  | 2 |" in text
    assert "| All | 1 | 1 | 1 | 1 | 2 |" in text
    assert "- AssertionError: output 0\n  - `TestMutation::test_c[x]`\n  - `TestMutation::test_c[y]`\n" in text
    assert "- never: it has no memory\n" in text
    assert "Tested with the options: defaults; tile=8. Not tested: the mode 'deploy', and other values" in text
    assert text.index("## Failed") < text.index("## Known failures") < text.index("## Not supported by declaration")


def test_json_has_the_same() -> None:
    data = json.loads(as_json(REPORT))
    assert data["counts"] == {"passed": 1, "not_supported": 1, "known_failure": 1, "not_run": 1, "failed": 2}
    assert [theme["number"] for theme in data["themes"]] == [1, 5, 10]
    assert data["options"] == {"tested": ["defaults", "tile=8"], "untested_modes": ["deploy"], "any": True}
    tests = [test for theme in data["themes"] for test in theme["tests"]]
    assert tests == [{"test": t.test, "outcome": t.outcome, "reason": t.reason} for t in REPORT.tests]
    assert summary(REPORT).startswith("1 passed, 1 not supported by declaration, ")


@pytest.mark.timeout(240)  # a process of its own
def test_a_vendors_module_is_reported(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(MODULE)
    (tmp_path / "test_listed.py").write_text(MODULE.replace("test_changed_metadata", "test_changed_metdata"))
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "test_mine.py"), str(tmp_path / "test_listed.py")]
    # Hypothesis' plugin would import and rewrite all of Hypothesis for its last report.
    environment = {**os.environ, "PYTEST_ADDOPTS": "-p no:hypothesispytest"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    text, _, rest = done.stdout.partition("---\n")
    assert rest == "1 2 2\n"
    assert "test_listed.py::TestMine::TestMutation has an entry 'test_changed_metdata', and there" in done.stderr
    assert "Did you mean 'test_changed_metadata'" in done.stderr
    assert "of mine, and not of 'other'" in done.stderr
    data = json.loads(text)
    outcomes = {test["test"].removeprefix("TestMine::"): test for theme in data["themes"] for test in theme["tests"]}
    assert {theme["number"] for theme in data["themes"]} == {2, 5, 10}
    assert data["options"] == {"tested": ["defaults", "tile=8"], "untested_modes": ["large"], "any": True}
    assert outcomes["TestTiles::test_defaults[small]"]["outcome"] == "passed"
    assert outcomes["TestOptions::test_two_compilations"]["outcome"] == "not_run"
    assert "such as other_options = ({'tile': …},)" in outcomes["TestOptions::test_two_compilations"]["reason"]
    assert outcomes["TestRandom::test_same_seed"]["outcome"] == "not_supported"
    assert outcomes["TestRandom::test_same_seed"]["reason"] == "backend 'mine' doesn't claim the capability 'random'"
    changed = outcomes["TestMutation::test_changed_input[add in place]"]
    assert (changed["outcome"], changed["reason"]) == ("known_failure", "notimpl: nothing is copied back")
    untrue = outcomes["TestMutation::test_unchanged_inputs"]
    assert untrue["outcome"] == "failed"
    assert "an entry that isn't true" in untrue["reason"]
    version = outcomes["TestMutation::test_version_counter[add in place]"]
    assert version["outcome"] == "failed"
    assert "its version counter stands still" in version["reason"]


def test_no_such_backend(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--backend", ""]) == 2
    assert "no report: a backend's name can't be empty" in capsys.readouterr().err


def test_no_such_tests(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["report", "--backend", "mine", "--tests", str(tmp_path / "none.py")]) == 2
    assert "there are no tests at" in capsys.readouterr().err


def test_an_output_that_cannot_be_written_is_refused_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["report", "--backend", "eager", "--theme", "2", "--output"]
    assert main([*arguments, str(tmp_path / "none/report.md")]) == 2
    assert f"is in a folder that isn't there; make {tmp_path / 'none'} first" in capsys.readouterr().err
    assert main([*arguments, str(tmp_path)]) == 2
    assert "is a folder; name a file in it" in capsys.readouterr().err
