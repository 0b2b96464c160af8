"""Tells the event stream what became of a graph at its backend: cut, run elsewhere, failed on; now or later."""

from __future__ import annotations

from typing import Any

import graphwright.events as events
from graphwright.exc import CodeLocation
from graphwright_plugins.compiling.backward_failures import BackwardFailure
from graphwright_plugins.report import GraphPlace, ReportBuilder


def tell_report(builder: ReportBuilder, site: events.CaptureSite | None = None) -> None:
    """Emit the events that a finished report gives rise to; `site` is None where no capture is under way."""
    report = builder.report()
    of: dict[str, Any] = {"graph_name": report.graph, "backend": report.backend}
    if site is not None:
        of |= {"location": site.location, "compile_id": site.compile_id}
    elif builder.place is not None:
        of["location"] = _location(builder.place)
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


def tell_backward_failure(failure: BackwardFailure) -> None:
    """Emit the event of a backward graph that failed; the error goes to the program."""
    of: dict[str, Any] = {"backend": failure.backend, "location": _location(failure.place), "error": failure.error}
    name = f"the backward graph of {failure.place.function}"
    if failure.stage == "compiling":
        events.emit(events.BackendFailed(graph_name=name, **of))
        return
    events.emit(
        events.GraphFailed(
            function=failure.place.function, graph_name=name, runs_in_eager=False, loses_effects=False, **of
        )
    )


def _location(place: GraphPlace) -> CodeLocation:
    return CodeLocation(place.filename, place.lineno, place.function)
