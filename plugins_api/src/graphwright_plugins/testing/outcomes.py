"""What came of the kit's tests, for a report: collected from pytest while they run."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias

import pytest

from graphwright_plugins.resolve import ResolvedBackend

from .base import NOT_DECLARED, ConformanceTests
from .tested_options import TestedOptions, options_in_words, tested_options
from .themes import Theme

Outcome: TypeAlias = Literal["passed", "not_supported", "known_failure", "not_run", "failed"]
"""`"not_supported"`: the backend doesn't claim what the test needs. `"known_failure"`: it failed as the vendor's list
says. `"not_run"`: it was skipped for a reason that is none of the backend's."""

OUTCOMES: Final[Mapping[Outcome, str]] = {
    "passed": "passed",
    "not_supported": "not supported by declaration",
    "known_failure": "known failures",
    "not_run": "not run",
    "failed": "failed",
}
"""Outcomes in words, in the order of columns."""


@dataclass(frozen=True)
class TestOutcome:
    """What came of one test."""

    __test__ = False  # pytest takes classes by their name

    theme: Theme
    """Its theme."""
    test: str
    """Class and test, with parameters."""
    outcome: Outcome
    """What came of it."""
    reason: str = ""
    """Why, in one line; empty where it passed."""


@dataclass(frozen=True)
class KitReport:
    """What came of a run of the kit on one backend."""

    backend: str
    """The backend's name."""
    distribution: str
    """The distribution it comes from; empty for one that was handed over as an object."""
    version: str
    """That distribution's version."""
    torch: str
    """The version of torch."""
    python: str
    """The version of Python."""
    tests: tuple[TestOutcome, ...] = field(repr=False)
    """The tests, in order."""
    options: TestedOptions = field(default_factory=TestedOptions)
    """The options that the tests were about."""

    def counts(self, theme: Theme | None = None) -> dict[Outcome, int]:
        """How many tests there are of each outcome, of one theme or all."""
        found = Counter(test.outcome for test in self.tests if theme in (None, test.theme))
        return {outcome: found[outcome] for outcome in OUTCOMES}

    @property
    def themes(self) -> list[Theme]:
        """The themes of which there are tests."""
        return sorted({test.theme for test in self.tests})

    def of(self, outcome: Outcome) -> list[TestOutcome]:
        """The tests of one outcome."""
        return [test for test in self.tests if test.outcome == outcome]

    def as_data(self) -> dict[str, Any]:
        """All of it, as what JSON can hold."""
        head = {name: value for name, value in asdict(self).items() if name != "tests"}
        themes = [
            {
                "number": theme.value,
                "title": theme.title,
                "counts": self.counts(theme),
                "tests": [
                    {"test": test.test, "outcome": test.outcome, "reason": test.reason}
                    for test in self.tests
                    if test.theme == theme
                ],
            }
            for theme in self.themes
        ]
        return {**head, "counts": self.counts(), "themes": themes}


class OutcomeCollector:
    """A pytest plugin that keeps the outcomes of the kit's tests on one backend.

    Args:
        backend: The backend's name: tests that are parametrized over names run for this one only.
        themes: The themes to run; all where empty.
    """

    def __init__(self, backend: str, themes: Iterable[Theme] = ()) -> None:
        self._backend = backend
        self._wanted = frozenset(themes)
        self._themes: dict[str, Theme] = {}
        self._outcomes: dict[str, TestOutcome] = {}
        self._used: dict[str, ResolvedBackend] = {}
        self.others: set[str] = set()
        """Names of other backends that tests turned out to be of."""
        self.broken: list[str] = []
        """What could not be collected, and why."""

    @property
    def tests(self) -> tuple[TestOutcome, ...]:
        """The outcomes by theme, in the order in which the tests ran."""
        return tuple(sorted(self._outcomes.values(), key=lambda outcome: outcome.theme))

    @property
    def options(self) -> TestedOptions:
        """The options that the tests were about."""
        return tested_options(self._used.values())

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Any:
        """Note what is wrong with the tests as a whole."""
        try:
            return (yield)
        except pytest.UsageError as error:
            self.broken.append(str(error))
            raise

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what is no test of the kit, of another backend, or of a theme that isn't wanted."""
        taken: list[pytest.Item] = []
        left: list[pytest.Item] = []
        for item in items:
            theme = self._theme_of(item)
            (left if theme is None else taken).append(item)
            if theme is not None:
                self._themes[item.nodeid] = theme
        config.hook.pytest_deselected(items=left)
        items[:] = taken

    def _theme_of(self, item: pytest.Item) -> Theme | None:
        owner = getattr(item, "cls", None)
        if not (isinstance(owner, type) and issubclass(owner, ConformanceTests)):
            return None
        parameters = getattr(item, "callspec", None)
        chosen = None if parameters is None else parameters.params.get("backend")
        if isinstance(chosen, str) and chosen != self._backend:
            return None
        return owner.theme if not self._wanted or owner.theme in self._wanted else None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note what couldn't be collected."""
        if report.failed:
            self.broken.append(f"{report.nodeid}: {_last_line(report)}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        """Note which backend a test really had."""
        resolved = getattr(item, "funcargs", {}).get("resolved")
        if resolved is not None and resolved.name != self._backend:
            self.others.add(resolved.name)
        elif resolved is not None:
            self._used.setdefault(options_in_words(resolved.options), resolved)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note an outcome. Of a test's phases the call counts, and any that fails."""
        theme = self._themes.get(report.nodeid)
        if theme is None or (report.when != "call" and report.passed):
            return
        outcome, reason = _outcome(report)
        if report.when == "teardown" and outcome != "failed":
            return
        known = self._outcomes.get(report.nodeid)
        if known is None or known.outcome != "failed":
            name = report.nodeid.partition("::")[2]
            self._outcomes[report.nodeid] = TestOutcome(theme, name, outcome, reason)


def _outcome(report: pytest.TestReport) -> tuple[Outcome, str]:
    if report.failed:
        return "failed", _last_line(report)
    if hasattr(report, "wasxfail"):
        return "known_failure", str(report.wasxfail).removeprefix("reason: ")
    if not report.skipped:
        return "passed", ""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if reason.startswith(NOT_DECLARED):
        return "not_supported", reason.removeprefix(f"{NOT_DECLARED}: ")
    return "not_run", reason


def _last_line(report: pytest.TestReport | pytest.CollectReport) -> str:
    """What went wrong, in one line: the exception's first line where pytest knows it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash is not None else report.longrepr).strip()
    lines = text.splitlines() or [""]
    return lines[0] if crash is not None else lines[-1]
