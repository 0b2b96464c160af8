"""Prints, for each program with varying sizes, the compiles that Graphwright and torch.compile need.

    python tests/shapes/compare_compiles.py

Ends with 1 where Graphwright needs more for any program.
"""

from __future__ import annotations

import sys

import torch
from gwshapes.programs import PROGRAMS
from gwshapes.run import CountingBackend, compiles_of

import graphwright


def main() -> int:
    """Print the table."""
    worse = 0
    print(f"{'program':28} graphwright  torch.compile")
    for program in PROGRAMS:
        torch.compiler.reset()
        theirs = compiles_of(program, torch.compile, CountingBackend())
        graphwright.reset()
        ours = compiles_of(program, graphwright.compile, CountingBackend())
        worse += ours > theirs
        print(f"{program.name:28} {ours:11}  {theirs:13}{'   more' if ours > theirs else ''}")
    print(f"{len(PROGRAMS)} programs, {worse} with more compiles than torch.compile {torch.__version__}")
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
