"""A backend whose compiled graphs can be saved, and a program that compiles with it: for tests and other processes."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx

from graphwright_plugins import (
    ArtifactMeta,
    ArtifactSettings,
    CacheOutcome,
    Capabilities,
    NotCacheable,
    ResolvedBackend,
    artifacts_wanted,
    listen_to_cache,
    resolve_backend,
    using_artifact_settings,
)
from graphwright_plugins.testing import Program, compile_program


@dataclass(frozen=True)
class Options:
    level: int = 1
    table: Any = None


class SavingBackend:
    """Runs graphs as they are, pickles them, and counts."""

    name = "saving"
    capabilities = Capabilities()
    options_type = Options

    def __init__(self, driver: str = "1.0") -> None:
        self.driver = driver
        self.compiled = 0
        self.loaded = 0
        self.wanted: list[bool] = []
        self.refusal: str | None = None
        self.save_error: Exception | None = None
        self.load_error: Exception | None = None

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: Options) -> Any:
        self.compiled += 1
        self.wanted.append(artifacts_wanted())
        self.on_compile(example_inputs)
        return graph

    def on_compile(self, example_inputs: Sequence[Any]) -> None:
        """What a test does while compiling."""

    def cache_key_parts(self, options: Options) -> Mapping[str, str]:
        if options.level == 13:
            raise NotCacheable("level 13 measures as it compiles")
        return {"version": "1", "driver": self.driver}

    def save(self, compiled: Any) -> bytes:
        if self.save_error is not None:
            raise self.save_error
        return pickle.dumps(compiled)

    def load(self, data: bytes, options: Options) -> Any:
        if self.load_error is not None:
            raise self.load_error
        self.loaded += 1
        return pickle.loads(data)

    def compatible(self, meta: ArtifactMeta) -> str | None:
        return self.refusal


PROGRAM = Program("p", lambda x, w: ((x @ w).relu(), x.sum(0)), lambda: (torch.randn(3, 3), torch.randn(3, 3)))


@dataclass
class Run:
    """What one compilation came to."""

    outcomes: list[CacheOutcome] = field(default_factory=list)
    values: Sequence[torch.Tensor] = ()

    @property
    def results(self) -> list[str]:
        """The outcomes' results."""
        return [outcome.result for outcome in self.outcomes]

    @property
    def reasons(self) -> str:
        """All reasons."""
        return "; ".join(outcome.reason for outcome in self.outcomes)


def run(backend: Any, settings: ArtifactSettings, options: Any = None, program: Program = PROGRAM) -> Run:
    """Compile the program under these settings, call it, and compare with eager."""
    resolved = backend if isinstance(backend, ResolvedBackend) else resolve_backend(backend, options)
    found = Run()
    end = listen_to_cache(found.outcomes.append)
    try:
        with using_artifact_settings(settings):
            inputs = program.inputs()
            compiled = compile_program(resolved, program, inputs)
    finally:
        end()
    found.values = compiled(*inputs)
    for actual, expected in zip(found.values, program.function(*inputs), strict=True):
        torch.testing.assert_close(actual, expected)
    return found


def main(folder: str) -> None:
    """What another process does: compile, and print how often it compiled and loaded, the results, and the key."""
    own = SavingBackend()
    told = run(own, ArtifactSettings("on", Path(folder)))
    print(own.compiled, own.loaded, ",".join(told.results), *(outcome.key for outcome in told.outcomes[:1]))
