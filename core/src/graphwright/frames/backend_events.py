"""Tells the event stream what became of a graph at its backend: cut, run elsewhere, failed on."""

from __future__ import annotations

from typing import Any

import graphwright.events as events
from graphwright_plugins.report import ReportBuilder


def tell_report(builder: ReportBuilder, site: events.CaptureSite | None = None) -> None:
    """Emit the events that a finished report gives rise to; `site` is None where no capture is under way."""
    report = builder.report()
    of: dict[str, Any] = {"graph_name": report.graph, "backend": report.backend}
    if site is not None:
        of |= {"location": site.location, "compile_id": site.compile_id}
    reasons = tuple(map(str, report.refusals))
    if report.refusals and report.outcome == "fallback":
        events.emit(events.NothingOnBackend(fallback=report.fallback, reasons=reasons, **of))
    elif report.parts:
        mine = sum(part.backend == report.backend for part in report.parts)
        events.emit(
            events.GraphPartitioned(
                fallback=report.fallback, parts=len(report.parts), on_backend=mine, reasons=reasons, **of
            )
        )
    for failure, error in zip(report.failures, builder.errors, strict=True):
        events.emit(
            events.BackendFellBack(
                distribution=report.distribution,
                version=report.version,
                fallback=failure.fallback,
                error=error,
                kind=failure.kind,
                part=failure.part,
                **of,
            )
        )
