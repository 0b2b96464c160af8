"""Whether the C++ compiler works, asked where Inductor failed: a broken one looks like a bug of Inductor's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from graphwright_plugins import BackendResourceError

from .availability import HOW_TO_GET_A_COMPILER

_PROGRAM: Final = "#include <cmath>\nextern int graphwright_check;\nint graphwright_check = 0;\n"
_TIMEOUT_S: Final = 60


def compiler_failure(names: Sequence[str], told: str) -> BackendResourceError | None:
    """What to raise where none of the C++ compilers can compile a program of two lines; None where one can.

    Args:
        names: The compilers that Inductor tries.
        told: What Inductor raised, in words.
    """
    if sys.platform == "win32":  # its compiler takes other arguments, and needs an environment of its own
        return None
    faults = []
    for name in names:
        fault = _why_not_working(name)
        if fault is None:
            return None
        faults.append(f"{name!r} {fault}")
    if not faults:
        return None
    return BackendResourceError(
        f"the C++ compiler doesn't work: {'; '.join(faults)}. Inductor said: {told}. Repair it; or install another "
        f"({HOW_TO_GET_A_COMPILER}) and set the environment variable CXX to it before Python starts."
    )


def _why_not_working(name: str) -> str | None:
    if shutil.which(name) is None:
        return "is not on the PATH"
    with TemporaryDirectory() as folder:
        source, made = Path(folder, "check.cpp"), Path(folder, "check.o")
        source.write_text(_PROGRAM)
        command = [name, "-std=c++20", "-c", str(source), "-o", str(made)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            return f"can't be run: {error}"
        if done.returncode == 0 and made.exists():
            return None
    lines = (done.stderr or done.stdout).strip().splitlines()
    said = f", saying {lines[0].strip()!r}" if lines else ""
    return f"can't compile an empty C++20 program (exit status {done.returncode}{said})"
