"""Runs CPython's own test modules with and without the frame hook, and compares them test by test.

    python tests/hook/run_cpython_tests.py [MODULE ...]

Each module runs in a process of its own. The hook is on in the main thread for the whole run, and every frame that it
meets is captured if it can be: frames need not work on tensors. Exits with 1 where a test's outcome differs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

MODULES = (
    "test_generators",
    "test_coroutines",
    "test_exceptions",
    "test_with",
    "test_contextlib",
    "test_scope",
    "test_super",
    "test_dict",
    "test_list",
    "test_sys_settrace",
    "test_frame",
    "test_traceback",
)
_TIMEOUT_S = 600


class Outcomes(unittest.TestResult):
    """Outcomes of tests by name, with the text of what failed."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, tuple[str, str]] = {}

    def _note(self, test: unittest.TestCase, outcome: str, text: str = "") -> None:
        self.found[test.id()] = (outcome, text)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._note(test, "skipped")

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._note(test, "failed", self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._note(test, "error", self.errors[-1][1])

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addExpectedFailure(test, err)
        self._note(test, "failed as expected")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self._note(test, "passed unexpectedly")

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note(subtest, "failed in a subtest", self._exc_info_to_string(err, test))


def run_here(module: str, hooked: bool, only: str | None) -> dict[str, Any]:
    """Run a module in this process."""
    # Imported for both runs, so that they start alike.
    import graphwright
    from graphwright import _native, events
    from graphwright.cache_key import intern_key
    from graphwright.frames.convert import convert_frame
    from graphwright_plugins import resolve_backend

    loaded = importlib.import_module(f"test.{module}")
    suite = unittest.defaultTestLoader.loadTestsFromModule(loaded)
    if only is not None:
        suite = unittest.defaultTestLoader.loadTestsFromName(only, loaded)
    key, keep_alive = intern_key(resolve_backend("eager"))
    result = Outcomes()
    started = time.perf_counter()
    errors: dict[str, int] = {}

    def note_error(event: Any) -> None:
        text = f"{event.function}: {type(event.error).__name__}: {event.error}"
        errors[text] = errors.get(text, 0) + 1

    graphwright.config.recompile_limit = 8
    events.subscribe(note_error, events.InternalErrorCaught)
    if hooked:
        _capture_all_frames()
        _native.set_hook(convert_frame, key)
    try:
        suite.run(result)
    finally:
        if hooked:
            _native.unset_hook()
    del keep_alive
    counters = events.counters()
    return {
        "outcomes": result.found,
        "seconds": time.perf_counter() - started,
        "captures": counters.get("FrameStarted", 0),
        "replaced": counters.get("Bytecode", 0),
        "internal_errors": errors,
    }


def _capture_all_frames() -> None:
    """Let the hook capture frames that work on no tensor, and those of CPython's test modules."""
    from graphwright import frame, frame_filter

    def is_worth_capturing(function: Any, args: tuple[object, ...]) -> bool:
        return True

    frame.is_worth_capturing = is_worth_capturing
    ours = frame_filter.is_library_module

    def is_library_module(name: str) -> bool:
        return not name.startswith("test.test_") and ours(name)

    frame_filter.is_library_module = is_library_module


def run_apart(module: str, hooked: bool) -> dict[str, Any]:
    """Run a module in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, __file__, "--run", module, "--report", str(report), *(["--hook"] if hooked else [])]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return {"died": f"no end after {_TIMEOUT_S} s"}
        if not report.exists():
            return {"died": f"exit status {done.returncode}: {done.stderr[-2000:]}"}
        return json.loads(report.read_text(encoding="utf-8"))


def differences(module: str) -> tuple[list[str], str]:
    """How the outcomes of a module differ, and a line about its run."""
    plain, hooked = run_apart(module, hooked=False), run_apart(module, hooked=True)
    if "died" in plain or "died" in hooked:
        return [f"{module}: without hook {plain.get('died', 'ran')}, with hook {hooked.get('died', 'ran')}"], module
    want, got = plain["outcomes"], hooked["outcomes"]
    different = [name for name in sorted({*want, *got}) if got.get(name, [""])[0] != want.get(name, [""])[0]]
    found = [
        f"{name}: {got.get(name, ['missing', ''])[0]} instead of {want.get(name, ['missing'])[0]}\n"
        f"{got.get(name, ['', ''])[1]}"
        for name in different
    ]
    about = (
        f"{module}: {len(want)} tests run, {len(different)} differ, {hooked['seconds']:.0f} s "
        f"({plain['seconds']:.0f} s without the hook), {hooked['captures']} captures, "
        f"{hooked['replaced']} frames replaced, {sum(hooked['internal_errors'].values())} internal errors"
    )
    return found + [f"internal error in {text} ({n} times)" for text, n in hooked["internal_errors"].items()], about


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=MODULES)
    parser.add_argument("--run", metavar="MODULE", help="run one module in this process")
    parser.add_argument("--hook", action="store_true", help="with the hook on")
    parser.add_argument("--only", metavar="TEST", help="one test class or method of the module")
    parser.add_argument("--report", type=Path)
    chosen = parser.parse_args()
    if chosen.run:
        report = run_here(chosen.run, chosen.hook, chosen.only)
        if chosen.report is not None:
            chosen.report.write_text(json.dumps(report), encoding="utf-8")
        else:
            print(json.dumps(report, indent=1))
        return 0
    failed = 0
    for module in chosen.modules:
        found, about = differences(module)
        print(about, *found, sep="\n", flush=True)
        failed += bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
