"""`backend_report(fn)`: what backends made of the graphs of a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphwright.code_objects import codes_of
from graphwright.frames.history import histories_of
from graphwright.resume import RESUME_FUNCTIONS
from graphwright_plugins import GraphReport


@dataclass(frozen=True)
class BackendReport:
    """What became of the graphs of a function, in every way it was compiled in."""

    graphs: tuple[GraphReport, ...]
    """One report for each graph, in the order of capture: those of the function before those that resume it."""

    @property
    def is_complete(self) -> bool:
        """Whether the backends that were asked for run all of every graph."""
        return all(report.outcome == "backend" for report in self.graphs)

    def __str__(self) -> str:
        return "\n".join(map(str, self.graphs)) or "no graph was compiled since the last reset"


def backend_report(fn: Any) -> BackendReport:
    """Tell what backends made of the graphs of a function; calls nothing.

    Args:
        fn: A function, method, partial, object with a `__call__`, or module, compiled or not.

    Returns:
        A report, as data and as text: for each graph the backend with its version and options, the parts, why nodes
        are not on the backend, what ran in its place, times, looks into the artifact store, and what it showed. It
        covers the time since the last `reset`, and the functions that resume `fn` after a graph break. Reports go by
        code: all graphs of the function's code are listed, whichever backend or compiled function they were made for.

    Raises:
        CompileArgumentError: `fn` has no Python code.
    """
    reports = [
        report
        for original in codes_of(fn, "backend_report")
        for code in (original, *RESUME_FUNCTIONS.made_from(original))
        for history in histories_of(code)
        for report in history.reports
    ]
    return BackendReport(tuple(reports))
