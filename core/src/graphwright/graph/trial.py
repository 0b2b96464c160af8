"""Tries operations on fake tensors without a trace: no log of failures, no warning that will be given again."""

from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from graphwright.torch_compat import FakeTensorMode, has_symbols, python_decompositions

_trying = threading.local()
"""Whether this thread is trying an operation on fakes."""


def _is_trying() -> bool:
    return getattr(_trying, "active", False)


class _ReportFilter(logging.Filter):
    """Drops torch's log of an operation that failed on fakes: here a failure is an answer."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_trying()


logging.getLogger(FakeTensorMode.__module__).addFilter(_ReportFilter())


class _WarningGate:
    """Stands in for `warnings.showwarning` while an operation is tried: it will warn again when the graph runs.

    Warnings from C++ pass: torch gives many of them only once in a process.
    """

    def __init__(self) -> None:
        self.original = warnings.showwarning

    def __call__(
        self, message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if not _is_trying() or "Triggered internally" in str(message):
            self.original(message, category, filename, lineno, file, line)

    def install(self) -> None:
        if warnings.showwarning is not self:
            self.original = warnings.showwarning
            warnings.showwarning = self

    def remove(self) -> None:
        if warnings.showwarning is self:
            warnings.showwarning = self.original


_warning_gate = _WarningGate()


@contextlib.contextmanager
def trying_on_fakes(mode: FakeTensorMode) -> Iterator[None]:
    """Run an operation under a fake mode, without reports of failures and without the warnings of a real run.

    Where sizes vary, composite operators written in C++ for plain ints are run by their Python decompositions.
    """
    before = _is_trying()
    _trying.active = True
    _warning_gate.install()
    try:
        with mode, python_decompositions() if has_symbols(mode) else contextlib.nullcontext():
            yield
    finally:
        _warning_gate.remove()
        _trying.active = before
