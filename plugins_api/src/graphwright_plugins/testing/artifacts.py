"""Compiled graphs that are saved and loaded: through the framework's store, in this process and in another."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch.nn import functional

from graphwright_plugins.form.weights import OfferedValues, offering
from graphwright_plugins.loading.registry import default_registry
from graphwright_plugins.protocol import CompiledGraph, HasArtifacts
from graphwright_plugins.resolve import ResolvedBackend, resolve_backend
from graphwright_plugins.store.outcomes import CacheOutcome, listen_to_cache
from graphwright_plugins.store.settings import ArtifactSettings, using_artifact_settings
from graphwright_plugins.supports import HasPartitioner, HasSupports

from .base import ConformanceTests, call
from .comparison import assert_same_values
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
WEIGHTS = Program(
    "saved with weights",
    lambda x, weight, bias: (torch.relu(functional.linear(x, weight, bias)), torch.matmul(x, torch.t(weight))),
    lambda: (torch.randn(5, 3), torch.nn.Parameter(torch.randn(4, 3)), torch.nn.Parameter(torch.randn(4))),
)
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
print(json.dumps(artifacts.fill(resolved, Path(folder), device)))
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
        again = resolved.backend.cache_key_parts(resolved.options)
        assert dict(again) == dict(parts), f"cache_key_parts() gave {dict(parts)}, and then {dict(again)}"

    def test_found_again(self, resolved: ResolvedBackend, tmp_path: Path) -> None:
        """The second compilation loads what the first one saved."""
        self._expect({"miss", "saved"}, resolved, PROGRAM, tmp_path)
        self._expect({"hit"}, resolved, PROGRAM, tmp_path)

    def test_weights(self, resolved: ResolvedBackend, tmp_path: Path) -> None:
        """What is loaded computes with the weights of the call: those it was saved with, others, and changed ones.

        Under the form `weights="frozen"` or `"refit"` they are constants of the graph, and `load` must give them back.
        """
        for seed in (0, 0, 1):
            inputs = WEIGHTS.inputs(self.device, seed)
            compiled, outcomes = compile_stored(resolved, WEIGHTS, tmp_path, inputs)
            self._declared(resolved, outcomes)
            check_weights(resolved, compiled, inputs)
            with torch.no_grad():
                inputs[1].mul_(2)
            check_weights(resolved, compiled, inputs)

    def test_gradients(self, resolved: ResolvedBackend, tmp_path: Path) -> None:
        """Gradients flow through what was loaded; or it says that such a graph can't be kept."""
        self.require(resolved, "training")
        for _ in range(2):
            compiled, _ = compile_stored(resolved, TRAINED, tmp_path, TRAINED.inputs(self.device))
            ours, theirs = TRAINED.inputs(self.device), TRAINED.inputs(self.device)
            compiled(*ours)[0].sum().backward()
            _function(*theirs)[0].sum().backward()
            torch.testing.assert_close(ours[1].grad, theirs[1].grad)

    def test_not_mistaken(self, resolved: ResolvedBackend, tmp_path: Path) -> None:
        """Another dtype, size, stride or operation is compiled for, each with a key of its own.

        What differs only in what the fallback runs is the same to the backend: a hit is right there.
        """
        self._outcomes(resolved, PROGRAM, tmp_path)
        seen = set(self._graphs(resolved, PROGRAM))
        for program in OTHERS:
            (dtype,) = {value.dtype for value in program.inputs()}
            graphs = self._graphs(resolved, program) if dtype in resolved.capabilities.dtypes else []
            if graphs:
                found = [outcome.result for outcome in self._outcomes(resolved, program, tmp_path)]
                assert found.count("hit") <= sum(graph in seen for graph in graphs), (
                    f"{program.id} took an artifact not its own"
                )
                seen.update(graphs)

    def test_truncated(self, resolved: ResolvedBackend, tmp_path: Path) -> None:
        """A file that was cut off is compiled anew."""
        self._something(resolved, self._outcomes(resolved, PROGRAM, tmp_path))
        files = list(tmp_path.rglob("*.gwa"))
        assert files, "nothing was saved"
        for file in files:
            file.write_bytes(file.read_bytes()[:-5])
        self._expect({"rejected", "saved"}, resolved, PROGRAM, tmp_path)

    def test_read_only(self, resolved: ResolvedBackend, tmp_path: Path) -> None:
        """A store that is only read is used, and left as it is."""
        self._expect({"miss"}, resolved, PROGRAM, tmp_path, "read_only")
        written = [file.name for file in tmp_path.rglob("*.gwa")]
        assert not written, f"a store that is only read was written to: {written}"
        self._outcomes(resolved, PROGRAM, tmp_path)
        self._expect({"hit"}, resolved, PROGRAM, tmp_path, "read_only")

    def test_damaged_content(self, resolved: ResolvedBackend) -> None:
        """`load` of what `save` never gave raises, or gives something that can't be mistaken for a graph."""
        assert isinstance(resolved.backend, HasArtifacts)
        try:
            loaded: Any = resolved.backend.load(b"no artifact", resolved.options)
        except Exception:  # noqa: BLE001  whatever it raises is reported by the framework
            return
        assert not callable(loaded), "load made a compiled graph of what is none"

    def test_another_process(self, resolved: ResolvedBackend, tmp_path: Path) -> None:
        """What another process saved is loaded by this one, with the weights that are constants of it."""
        if resolved.name not in default_registry():
            pytest.skip(f"backend {resolved.name!r} was handed over as an object: another process can't find it")
        there = run_python(_ELSEWHERE, resolved.name, json.dumps(dict(self.options or {})), self.device, str(tmp_path))
        assert there.returncode == 0, f"another process that compiles and saves failed: {there.stderr}"
        filled: dict[str, list[str]] = json.loads(there.stdout.splitlines()[-1])
        if "not_cached" in filled[PROGRAM.id]:
            self.not_declared(f"backend {resolved.name!r} doesn't keep this graph")
        if not filled[PROGRAM.id]:
            self._gets_nothing(resolved)
        assert set(filled[PROGRAM.id]) == {"miss", "saved"}, f"in another process the store gave {filled[PROGRAM.id]}"
        here = resolve_backend(resolved.name, self.options)
        self._expect({"hit"}, here, PROGRAM, tmp_path)
        inputs = WEIGHTS.inputs(self.device)
        compiled, outcomes = compile_stored(here, WEIGHTS, tmp_path, inputs)
        check_weights(here, compiled, inputs)
        if "saved" in filled[WEIGHTS.id]:
            assert "hit" in [outcome.result for outcome in outcomes], _told(WEIGHTS, outcomes, {"hit"})

    def _graphs(self, resolved: ResolvedBackend, program: Program) -> list[str]:
        """What the backend is given of a program."""
        recording = Recording(resolved)
        compile_program(replace(resolved, backend=recording), program, program.inputs(self.device))
        return recording.graphs

    def _gets_nothing(self, resolved: ResolvedBackend) -> None:
        if isinstance(resolved.backend, (HasSupports, HasPartitioner)):
            self.not_declared(f"backend {resolved.name!r} does nothing of the program that is to be saved")

    def _something(self, resolved: ResolvedBackend, outcomes: Sequence[CacheOutcome]) -> None:
        """Skip the test where the backend got nothing that could be saved."""
        if not outcomes:
            self._gets_nothing(resolved)

    def _expect(
        self, wanted: set[str], resolved: ResolvedBackend, program: Program, folder: Path, mode: Any = "on"
    ) -> None:
        """Compile a program of which the backend gets a part or several, and compare the outcomes."""
        outcomes = self._outcomes(resolved, program, folder, mode)
        self._something(resolved, outcomes)
        assert {outcome.result for outcome in outcomes} == wanted, _told(program, outcomes, wanted)

    def _outcomes(
        self, resolved: ResolvedBackend, program: Program, folder: Path, mode: Any = "on"
    ) -> list[CacheOutcome]:
        """Compile with a store, check a call, and give the outcomes of looking into the store and saving."""
        compiled, outcomes = compile_stored(resolved, program, folder, program.inputs(self.device), mode)
        for seed in range(2):
            self.check_call(resolved, compiled, program, program.inputs(self.device, seed), seed)
        self._declared(resolved, outcomes)
        return outcomes

    def _declared(self, resolved: ResolvedBackend, outcomes: Sequence[CacheOutcome]) -> None:
        """Skip the test where the backend said that the graph can't be kept."""
        for outcome in outcomes:
            if outcome.result == "not_cached":
                self.not_declared(f"backend {resolved.name!r} doesn't keep this graph: {outcome.reason}")


def fill(resolved: ResolvedBackend, folder: Path, device: str) -> dict[str, list[str]]:
    """Compile two programs with a store, one of them with weights; the outcomes of each, by the program's name."""
    filled: dict[str, list[str]] = {}
    for program in (PROGRAM, WEIGHTS):
        inputs = program.inputs(device)
        compiled, outcomes = compile_stored(resolved, program, folder, inputs)
        filled[program.id] = [outcome.result for outcome in outcomes]
        if program is WEIGHTS:
            check_weights(resolved, compiled, inputs)
    return filled


def check_weights(resolved: ResolvedBackend, compiled: CompiledGraph, inputs: Sequence[Any]) -> None:
    """Compare a call of what was compiled of `WEIGHTS` with eager, which a graph with other weights isn't equal to."""
    with torch.no_grad():
        expected, actual = WEIGHTS.function(*inputs), call(compiled, inputs)
    assert_same_values(expected, actual, resolved.capabilities, "with the call's weights, output")


def compile_stored(
    resolved: ResolvedBackend, program: Program, folder: Path, inputs: Sequence[Any], mode: Any = "on"
) -> tuple[CompiledGraph, list[CacheOutcome]]:
    """Compile with a store, as the framework does: the weights of the first call are offered as constants.

    Args:
        resolved: The backend.
        program: The program; with `WEIGHTS` no gradients are asked for.
        folder: Where the store is to be.
        inputs: The first call's inputs. What is compiled for their weights goes with them.
        mode: How the store is used.

    Returns:
        What was compiled or loaded; and the outcomes, to which later ones are not added.
    """
    outcomes: list[CacheOutcome] = []
    end = listen_to_cache(outcomes.append)
    grad = torch.is_grad_enabled() and program is not WEIGHTS
    try:
        with (
            using_artifact_settings(ArtifactSettings(mode, folder / "store")),
            offering(OfferedValues(inputs)),
            torch.set_grad_enabled(grad),
        ):
            return compile_program(resolved, program, inputs), outcomes
    finally:
        end()


def _told(program: Program, outcomes: Sequence[CacheOutcome], wanted: set[str]) -> str:
    """What the store did, where that is wrong."""
    lines = [f"{one.result}: {one.reason}" if one.reason else one.result for one in outcomes]
    return f"for the program {program.id!r} the store gave {lines}, where {sorted(wanted)} was expected"
