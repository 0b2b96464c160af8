"""Looks for programs whose compiled run differs from eager: `python tests/fuzz/hunt.py [--breaks] FIRST_SEED COUNT`."""

from __future__ import annotations

import argparse
import logging
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from gwfuzz.choices import RandomChoices
from gwfuzz.minimise import minimise
from gwfuzz.program import ProgramGenerator
from gwfuzz.runner import Report, check


class TooSlow(BaseException):
    """A program took too long."""


def _alarm(number: int, frame: object) -> None:
    raise TooSlow


def guarded(source: str, backend: str, seconds: int = 60) -> Report:
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(seconds)
    try:
        return check(source, backend)
    except TooSlow:
        return Report(difference=f"took more than {seconds} s")
    finally:
        signal.alarm(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--breaks", action="store_true")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--show", action="store_true", help="print each program")
    parser.add_argument("--out", default="", help="folder for failing programs")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--no-minimise", action="store_true")
    options = parser.parse_args()
    logging.getLogger("graphwright").setLevel(logging.ERROR)
    totals: Counter[str] = Counter()
    left: Counter[str] = Counter()
    started = time.perf_counter()
    for seed in range(options.first, options.first + options.count):
        if time.perf_counter() - started > options.seconds:
            break
        source = ProgramGenerator(RandomChoices(seed), breaks=options.breaks).source()
        if options.show:
            print(source)
        report = guarded(source, options.backend)
        totals.update(programs=1, with_ops=int(report.ops > 0), ops=report.ops, graphs=report.graphs)
        totals.update(calls=report.calls)
        totals.update(
            raised=report.raised,
            lost_effects=report.lost_effects,
            breaks=len(report.breaks),
            left_to_eager=len(report.left_to_eager),
            failures=int(report.difference is not None),
        )
        left.update(re.sub(r"\bl_\w+", "…", reason) for reason in report.left_to_eager)
        if report.difference is not None:
            if not options.no_minimise:
                source = minimise(source, report.difference, lambda text: guarded(text, options.backend, 20).difference)
            print(f"---- seed {seed}: {report.difference}", flush=True)
            if options.out:
                Path(options.out).mkdir(parents=True, exist_ok=True)
                Path(options.out, f"{seed}.py").write_text(f"# {report.difference}\n{source}")
    for reason, count in left.most_common():
        print(f"left to eager {count} times: {reason}")
    print(dict(totals), f"{time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
