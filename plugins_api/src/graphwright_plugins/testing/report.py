"""The kit's report on one backend: run it, and say by theme what came of it, as Markdown or JSON."""

import contextlib
import json
import platform
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from graphwright_plugins.errors import PluginError
from graphwright_plugins.resolve import ResolvedBackend, resolve_backend
from graphwright_plugins.torch_compat import TORCH_VERSION

from .outcomes import OUTCOMES, KitReport, Outcome, OutcomeCollector
from .themes import Theme

_MODULE: Final = '''"""The whole kit on the backend {name!r}."""

import pytest

from graphwright_plugins import testing


@pytest.fixture
def backend():
    return {name!r}


class TestKit(testing.ConformanceKit):
    device = {device!r}
'''


class NoReport(Exception):
    """The kit could not be run; the message says why and what to do."""


def run_kit(backend: str, *, tests: Path | None = None, device: str = "cpu", themes: Iterable[Theme] = ()) -> KitReport:
    """Run the kit on a backend, in this process; pytest's own output goes to standard error.

    Args:
        backend: The backend's name.
        tests: The vendor's own module or folder of tests, whose fixture `backend` and `known_failures` count. Without
            it, all of the kit runs, and nothing is known to fail.
        device: Where inputs live, without `tests`.
        themes: The themes to run; all where empty.

    Raises:
        NoReport: There is no such backend, its tests can't be collected, or they are another backend's.
    """
    resolved = None if tests is not None else _resolved(backend)
    collector = OutcomeCollector(backend, themes)
    with _module(backend, device) if tests is None else contextlib.nullcontext(tests) as path:
        if not path.exists():
            raise NoReport(f"there are no tests at {path}")
        _run_pytest(path, collector, own=tests is None)
    _check(collector, backend, tests)
    found = resolved or _resolved_or_none(backend)
    return KitReport(
        backend=backend,
        distribution=(found.distribution or "") if found is not None else "",
        version=(found.version or "") if found is not None else "",
        torch=TORCH_VERSION,
        python=platform.python_version(),
        options=collector.options,
        tests=collector.tests,
    )


def _resolved(backend: str) -> ResolvedBackend:
    try:
        return resolve_backend(backend)
    except PluginError as error:
        raise NoReport(str(error)) from error


def _resolved_or_none(backend: str) -> ResolvedBackend | None:
    """The backend as it is installed, where it can be found: its tests may hand it over as an object."""
    try:
        return resolve_backend(backend)
    except PluginError:
        return None


@contextlib.contextmanager
def _module(backend: str, device: str) -> Iterator[Path]:
    """A module of tests as a vendor would write it."""
    with tempfile.TemporaryDirectory(prefix="graphwright_kit_") as folder:
        path = Path(folder) / "test_kit_of_backend.py"
        path.write_text(_MODULE.format(name=backend, device=device), encoding="utf-8")
        (Path(folder) / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        yield path


def _run_pytest(path: Path, collector: OutcomeCollector, *, own: bool) -> None:
    # The last -m wins, and an empty one takes tests that a vendor's settings leave out as slow.
    arguments = [str(path), "-q", "-m", "", "-p", "no:cacheprovider", "--tb=short", "--import-mode=importlib"]
    if own:
        arguments += ["--rootdir", str(path.parent), "-c", str(path.parent / "pytest.ini")]
    with contextlib.redirect_stdout(sys.stderr):
        status = pytest.main(arguments, plugins=[collector])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise NoReport("; ".join(collector.broken) or f"pytest ended with status {int(status)}; it says why above")


def _check(collector: OutcomeCollector, backend: str, tests: Path | None) -> None:
    if collector.broken:
        raise NoReport(f"tests could not be collected: {'; '.join(collector.broken)}")
    where = "" if tests is None else f" at {tests}"
    if collector.others:
        raise NoReport(f"the tests{where} are of {', '.join(sorted(collector.others))}, and not of {backend!r}")
    if not collector.tests:
        raise NoReport(f"there are no tests of the kit{where} for backend {backend!r} and the themes asked for")


def as_json(report: KitReport) -> str:
    """A report as JSON."""
    return json.dumps(report.as_data(), indent=2) + "\n"


def as_markdown(report: KitReport) -> str:
    """A report as Markdown."""
    owner = f" ({report.distribution} {report.version})" if report.distribution else ""
    lines = [
        f"# Conformance of `{report.backend}`{owner}",
        "",
        f"torch {report.torch}, Python {report.python}. {summary(report)}",
        "",
        *([str(report.options), ""] if str(report.options) else []),
        f"| Theme | {' | '.join(OUTCOMES.values())} |",
        f"|---|{'---:|' * len(OUTCOMES)}",
    ]
    for theme in report.themes:
        cells = (str(count or "") for count in report.counts(theme).values())
        lines.append(f"| {theme.value}. {theme.title} | {' | '.join(cells)} |")
    lines.append(f"| All | {' | '.join(str(count) for count in report.counts().values())} |")
    for outcome in ("failed", "known_failure", "not_supported", "not_run"):
        lines += _section(report, outcome)
    return "\n".join(lines) + "\n"


def summary(report: KitReport) -> str:
    """The counts as a sentence."""
    counts = report.counts()
    return ", ".join(f"{counts[outcome]} {words}" for outcome, words in OUTCOMES.items()) + "."


def _section(report: KitReport, outcome: Outcome) -> list[str]:
    """The tests of one outcome by reason."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for test in report.of(outcome):
        by_reason[test.reason].append(test.test)
    if not by_reason:
        return []
    lines = ["", f"## {OUTCOMES[outcome].capitalize()}", ""]
    for reason, tests in by_reason.items():
        lines.append(f"- {reason}")
        lines += [f"  - `{test}`" for test in tests]
    return lines
