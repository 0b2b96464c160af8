"""`python -m graphwright_plugins.testing report --backend NAME`: run the kit, write what came of it."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .report import NoReport, as_json, as_markdown, run_kit, summary
from .themes import Theme


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the status is 0 where nothing failed, 1 where something did, 2 where there is no report."""
    chosen = _parser().parse_args(arguments)
    try:
        if chosen.output is not None:
            _check_writable(chosen.output)
        report = run_kit(chosen.backend, tests=chosen.tests, device=chosen.device, themes=map(Theme, chosen.theme))
    except NoReport as error:
        print(f"no report: {error}", file=sys.stderr)
        return 2
    text = as_json(report) if chosen.format == "json" else as_markdown(report)
    if chosen.output is None:
        sys.stdout.write(text)
    else:
        try:
            chosen.output.write_text(text, encoding="utf-8")
        except OSError as error:  # a run takes minutes: what came of it isn't thrown away
            sys.stdout.write(text)
            print(f"the report isn't in {chosen.output}, which can't be written: {error}", file=sys.stderr)
            return 2
        print(f"{chosen.backend}: {summary(report)} See {chosen.output}.")
    return 1 if report.of("failed") else 0


def _check_writable(output: Path) -> None:
    """Refuse a file that can't be written before the kit runs, which takes minutes."""
    if output.is_dir():
        raise NoReport(f"--output {output} is a folder; name a file in it")
    if not output.absolute().parent.is_dir():
        raise NoReport(f"--output {output} is in a folder that isn't there; make {output.absolute().parent} first")
    if not os.access(output if output.exists() else output.absolute().parent, os.W_OK):
        raise NoReport(f"--output {output} can't be written: this user may not")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m graphwright_plugins.testing", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser("report", help="run the conformance kit on a backend and report by theme")
    report.add_argument("--backend", required=True, metavar="NAME", help="the backend's name")
    report.add_argument(
        "--tests",
        type=Path,
        metavar="PATH",
        help="your own module or folder of conformance tests: its fixture `backend` and its `known_failures` count; "
        "without it all of the kit runs, with nothing known to fail",
    )
    report.add_argument("--format", choices=("markdown", "json"), default="markdown", help="default: %(default)s")
    report.add_argument("--output", type=Path, metavar="FILE", help="where to write it; default: standard output")
    report.add_argument("--device", default="cpu", help="where inputs live, without --tests; default: %(default)s")
    report.add_argument(
        "--theme",
        type=int,
        action="append",
        default=[],
        choices=[theme.value for theme in Theme],
        metavar="N",
        help="a theme to run, by number; may be given several times; default: all. "
        + "; ".join(f"{theme.value} {theme.title.lower()}" for theme in Theme),
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
