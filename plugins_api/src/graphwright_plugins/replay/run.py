"""Runs one backend alone on one saved graph: `python -m graphwright_plugins.replay FOLDER --backend NAME`."""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from graphwright_plugins.errors import LeftToEager, PluginError
from graphwright_plugins.graphs.ambient_state import AmbientState
from graphwright_plugins.partition.part_runner import pristine
from graphwright_plugins.protocol import Backend
from graphwright_plugins.report import GraphReport, collecting
from graphwright_plugins.resolve import resolve_backend
from graphwright_plugins.torch_compat import new_fake_mode, outside_tracing, tracing_context

from .saved_graph import SavedGraph, load_graph
from .saved_inputs import fake_inputs, real_inputs

ReplayOutcome: TypeAlias = Literal["same", "differs", "failed to compile", "failed to run", "eager fails", "compiled"]
"""How a replay went: results as in eager or not; where it stopped; or that nothing was run."""


@dataclass(frozen=True)
class Replay:
    """What came of a replay."""

    outcome: ReplayOutcome
    """How it went."""
    detail: str = ""
    """What was raised, or what differs."""
    error: Exception | None = None
    """What was raised."""
    reports: tuple[GraphReport, ...] = ()
    """What the backend did."""

    def __str__(self) -> str:
        lines = [*map(str, self.reports), f"outcome: {self.outcome}"]
        return "\n".join([*lines, self.detail] if self.detail else lines)


def replay(
    folder: str | Path,
    backend: str | Backend | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    mode: str | None = None,
    run: bool = True,
) -> Replay:
    """Compile a saved graph with a backend, run it, and compare with the graph in eager.

    Args:
        folder: What `save_graph` made.
        backend: The backend; the one it was saved for by default.
        options: Options of the backend; those it was saved with by default, if the backend is the same.
        mode: A mode of the backend.
        run: Whether to run what was compiled.

    Raises:
        PluginError: The folder can't be read, or the backend or its options are wrong.
    """
    saved = load_graph(folder)
    if options is None and mode is None and backend in (None, saved.backend):
        options = saved.options
    resolved = resolve_backend(saved.backend if backend is None else backend, options, mode=mode)
    before = AmbientState.current()
    saved.state.install()
    try:
        with outside_tracing():
            return _replay(saved, resolved.compile, run)
    finally:
        before.install()


def _replay(saved: SavedGraph, compile_graph: Any, run: bool) -> Replay:
    torch.manual_seed(0)
    expected_inputs = _inputs(saved)
    torch.manual_seed(0)
    inputs = _inputs(saved)
    fake_mode = new_fake_mode()
    fakes = fake_inputs(saved.inputs, inputs, fake_mode)
    eager = pristine(saved.graph)
    with collecting("graph") as collector, tracing_context(fake_mode):
        try:
            compiled = compile_graph(saved.graph, fakes)
        except LeftToEager as error:
            return Replay("same", f"left to eager: {error}", error, collector.reports)
        except Exception as error:  # noqa: BLE001  a plugin's code: what it raises is the result
            return Replay("failed to compile", _told(error), error, collector.reports)
    if not run:
        return Replay("compiled", reports=collector.reports)
    try:
        torch.manual_seed(1)
        expected = eager.forward(*expected_inputs)
    except Exception as error:  # noqa: BLE001  random inputs may not fit the graph
        return Replay("eager fails", f"{_told(error)}; save the graph with its inputs", error, collector.reports)
    try:
        torch.manual_seed(1)
        got = compiled(*inputs)
    except Exception as error:  # noqa: BLE001  a plugin's code: what it raises is the result
        return Replay("failed to run", _told(error), error, collector.reports)
    difference = _difference([*got, *inputs], [*expected, *expected_inputs], len(expected))
    return Replay("differs" if difference else "same", difference, None, collector.reports)


def _inputs(saved: SavedGraph) -> list[Any]:
    """Inputs of the saved form, with the saved values where there are any."""
    made = real_inputs(saved.inputs)
    with torch.no_grad():
        for tensor, value in zip(made, saved.values or (), strict=False):
            if isinstance(tensor, torch.Tensor):
                tensor.detach().copy_(value)
    return (
        made
        if saved.values is None
        else [
            tensor if isinstance(tensor, torch.Tensor) else value
            for tensor, value in zip(made, saved.values, strict=True)
        ]
    )


def _difference(got: Sequence[Any], expected: Sequence[Any], n_outputs: int) -> str:
    if len(got) != len(expected):
        return f"{len(got) - len(expected) + n_outputs} outputs instead of {n_outputs}"
    for place, (one, other) in enumerate(zip(got, expected, strict=True)):
        name = f"output {place}" if place < n_outputs else f"input {place - n_outputs} after the call"
        try:
            torch.testing.assert_close(one, other, equal_nan=True)
        except AssertionError as error:
            return f"{name}: {error}"
    return ""


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 where results are as in eager, 1 where they aren't, 2 where nothing was tried."""
    parser = argparse.ArgumentParser(prog="python -m graphwright_plugins.replay", description=__doc__)
    parser.add_argument("folder", help="what save_graph made")
    parser.add_argument("--backend", help="the backend; the one it was saved for by default")
    parser.add_argument("--option", action="append", metavar="NAME=VALUE", help="an option of the backend; may repeat")
    parser.add_argument("--mode", help="a mode of the backend")
    parser.add_argument("--no-run", action="store_true", help="compile only")
    chosen = parser.parse_args(arguments)
    options = dict(map(_option, chosen.option)) if chosen.option else None
    try:
        result = replay(chosen.folder, chosen.backend, options, mode=chosen.mode, run=not chosen.no_run)
    except PluginError as error:
        sys.stderr.write(f"no replay: {error}\n")
        return 2
    sys.stdout.write(f"{result}\n")
    return 0 if result.outcome in ("same", "compiled") else 1


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
