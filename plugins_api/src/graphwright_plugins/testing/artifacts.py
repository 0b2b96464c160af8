"""Compiled graphs that are saved and loaded: through the framework's store, in this process and in another."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import torch

from graphwright_plugins.loading.registry import default_registry
from graphwright_plugins.protocol import CompiledGraph, HasArtifacts
from graphwright_plugins.resolve import ResolvedBackend, resolve_backend
from graphwright_plugins.store.outcomes import CacheOutcome, listen_to_cache
from graphwright_plugins.store.settings import ArtifactSettings, using_artifact_settings
from graphwright_plugins.supports import HasPartitioner, HasSupports

from .base import ConformanceTests
from .fresh_process import run_python
from .program import Program, compile_program
from .stand_ins import Recording
from .themes import Theme


def _function(x: Any, weight: Any) -> tuple[Any, ...]:
    # Functions and no methods: some caches want to know what a method is called on, which capture alone notes.
    return torch.relu(torch.matmul(x, weight)), torch.sum(x, 0)


def _inputs() -> Sequence[torch.Tensor]:
    return torch.randn(4, 3), torch.randn(3, 3)


PROGRAM = Program("saved", _function, _inputs)
TRAINED = Program("saved with gradients", _function, lambda: (torch.randn(4, 3), torch.randn(3, 3, requires_grad=True)))
OTHERS = [
    Program("other dtype", _function, lambda: [value.double() for value in _inputs()]),
    Program("other size", _function, lambda: (torch.randn(5, 3), torch.randn(3, 3))),
    Program("other stride", _function, lambda: (torch.randn(3, 4).t(), torch.randn(3, 3))),
    Program("other operation", lambda x, weight: (torch.tanh(torch.matmul(x, weight)), torch.sum(x, 0)), _inputs),
    Program("other number", lambda x, weight: (torch.relu(torch.matmul(x, weight)), torch.sum(x, 1)), _inputs),
]
_ELSEWHERE: Final = """
import json, sys
from pathlib import Path
from graphwright_plugins.resolve import resolve_backend
from graphwright_plugins.testing import artifacts
name, options, device, folder = sys.argv[1:]
resolved = resolve_backend(name, json.loads(options))
print("results:", *artifacts.results_of(resolved, artifacts.PROGRAM, Path(folder), device))
"""


class ArtifactTests(ConformanceTests):
    """A saved graph is found again for the same graph, inputs and options, and for no other, and does the same."""

    theme = Theme.ARTIFACTS

    @pytest.fixture(autouse=True)
    def _has_artifacts(self, resolved: ResolvedBackend) -> None:
        if not isinstance(resolved.backend, HasArtifacts):
            self.not_declared(f"backend {resolved.name!r} saves nothing: it has no cache_key_parts()")

    def test_key_parts(self, resolved: ResolvedBackend) -> None:
        """What else the key depends on is text, and the same each time."""
        assert isinstance(resolved.backend, HasArtifacts)
        parts = resolved.backend.cache_key_parts(resolved.options)
        assert all(isinstance(text, str) for pair in parts.items() for text in pair), parts
        assert dict(resolved.backend.cache_key_parts(resolved.options)) == dict(parts)

    def test_found_again(self, resolved: ResolvedBackend, tmp_path: Path) -> None:
        """The second compilation loads what the first one saved."""
        assert self._results(resolved, PROGRAM, tmp_path) == {"miss", "saved"}
        assert self._results(resolved, PROGRAM, tmp_path) == {"hit"}

    def test_gradients(self, resolved: ResolvedBackend, tmp_path: Path) -> None:
        """Gradients flow through what was loaded; or it says that such a graph can't be kept."""
        self.require(resolved, "training")
        for _ in range(2):
            compiled, _ = _compile(resolved, TRAINED, tmp_path, self.device)
            ours, theirs = TRAINED.inputs(self.device), TRAINED.inputs(self.device)
            compiled(*ours)[0].sum().backward()
            _function(*theirs)[0].sum().backward()
            torch.testing.assert_close(ours[1].grad, theirs[1].grad)

    def test_not_mistaken(self, resolved: ResolvedBackend, tmp_path: Path) -> None:
        """Another dtype, size, stride or operation is compiled for, each with a key of its own.

        What differs only in what the fallback runs is the same to the backend: a hit is right there.
        """
        self._results(resolved, PROGRAM, tmp_path)
        seen = set(self._graphs(resolved, PROGRAM))
        for program in OTHERS:
            (dtype,) = {value.dtype for value in program.inputs()}
            graphs = self._graphs(resolved, program) if dtype in resolved.capabilities.dtypes else []
            if graphs:
                found = self._outcomes(resolved, program, tmp_path)
                assert found.count("hit") <= sum(graph in seen for graph in graphs), (
                    f"{program.id} took an artifact not its own"
                )
                seen.update(graphs)

    def test_truncated(self, resolved: ResolvedBackend, tmp_path: Path) -> None:
        """A file that was cut off is compiled anew."""
        self._results(resolved, PROGRAM, tmp_path)
        files = list(tmp_path.rglob("*.gwa"))
        assert files
        for file in files:
            file.write_bytes(file.read_bytes()[:-5])
        assert self._results(resolved, PROGRAM, tmp_path) == {"rejected", "saved"}

    def test_read_only(self, resolved: ResolvedBackend, tmp_path: Path) -> None:
        """A store that is only read is used, and left as it is."""
        assert self._results(resolved, PROGRAM, tmp_path, "read_only") == {"miss"}
        assert list(tmp_path.rglob("*.gwa")) == []
        self._results(resolved, PROGRAM, tmp_path)
        assert self._results(resolved, PROGRAM, tmp_path, "read_only") == {"hit"}

    def test_damaged_content(self, resolved: ResolvedBackend) -> None:
        """`load` of what `save` never gave raises, or gives something that can't be mistaken for a graph."""
        assert isinstance(resolved.backend, HasArtifacts)
        try:
            loaded: Any = resolved.backend.load(b"no artifact", resolved.options)
        except Exception:  # noqa: BLE001  whatever it raises is reported by the framework
            return
        assert not callable(loaded), "load made a compiled graph of what is none"

    def test_another_process(self, resolved: ResolvedBackend, tmp_path: Path) -> None:
        """What another process saved is loaded by this one."""
        if resolved.name not in default_registry():
            pytest.skip(f"backend {resolved.name!r} was handed over as an object: another process can't find it")
        there = run_python(_ELSEWHERE, resolved.name, json.dumps(dict(self.options or {})), self.device, str(tmp_path))
        assert there.returncode == 0, there.stderr
        results = there.stdout.splitlines()[-1]
        if "not_cached" in results:
            self.not_declared(f"backend {resolved.name!r} doesn't keep this graph")
        if results == "results:":
            self._gets_nothing(resolved)
        assert set(results.split()[1:]) == {"miss", "saved"}
        assert self._results(resolve_backend(resolved.name, self.options), PROGRAM, tmp_path) == {"hit"}

    def _graphs(self, resolved: ResolvedBackend, program: Program) -> list[str]:
        """What the backend is given of a program."""
        recording = Recording(resolved)
        compile_program(replace(resolved, backend=recording), program, program.inputs(self.device))
        return recording.graphs

    def _gets_nothing(self, resolved: ResolvedBackend) -> None:
        if isinstance(resolved.backend, (HasSupports, HasPartitioner)):
            self.not_declared(f"backend {resolved.name!r} does nothing of the program that is to be saved")

    def _results(self, resolved: ResolvedBackend, program: Program, folder: Path, mode: Any = "on") -> set[str]:
        """The outcomes for a program of which the backend gets a part or several."""
        outcomes = self._outcomes(resolved, program, folder, mode)
        if not outcomes:
            self._gets_nothing(resolved)
        return set(outcomes)

    def _outcomes(self, resolved: ResolvedBackend, program: Program, folder: Path, mode: Any = "on") -> list[str]:
        """Compile with a store, check a call, and give the outcomes of looking into the store and saving."""
        compiled, outcomes = _compile(resolved, program, folder, self.device, mode)
        for seed in range(2):
            self.check_call(resolved, compiled, program, program.inputs(self.device, seed), seed)
        kept = [outcome.reason for outcome in outcomes if outcome.result == "not_cached"]
        if kept:
            self.not_declared(f"backend {resolved.name!r} doesn't keep this graph: {kept[0]}")
        return [outcome.result for outcome in outcomes]


def results_of(resolved: ResolvedBackend, program: Program, folder: Path, device: str) -> list[str]:
    """Compile with a store, and give the outcomes of looking into it and saving."""
    return [outcome.result for outcome in _compile(resolved, program, folder, device)[1]]


def _compile(
    resolved: ResolvedBackend, program: Program, folder: Path, device: str, mode: Any = "on"
) -> tuple[CompiledGraph, list[CacheOutcome]]:
    outcomes: list[CacheOutcome] = []
    end = listen_to_cache(outcomes.append)
    try:
        with using_artifact_settings(ArtifactSettings(mode, folder / "store")):
            return compile_program(resolved, program, program.inputs(device)), outcomes
    finally:
        end()
