"""Compiled graphs kept on disk, seen from `graphwright.compile`: settings, events, logs, and closing on `reset`."""

from __future__ import annotations

import io
import logging
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import graphwright
from graphwright import events
from graphwright_plugins import BackendContractError, Capabilities, GraphForm, constants_of

pytestmark = pytest.mark.e2e


class Keeping:
    """Runs graphs as they are, pickles them, counts, and holds something."""

    name = "keeping"
    capabilities = Capabilities()

    def __init__(self) -> None:
        self.compiled = 0
        self.held = 0
        self.close_error: Exception | None = None

    def compile(self, graph: Any, example_inputs: Sequence[Any], options: Any) -> Any:
        self.compiled += 1
        self.held += 1
        return graph

    def cache_key_parts(self, options: Any) -> Mapping[str, str]:
        return {"version": "1"}

    def save(self, compiled: Any) -> bytes:
        return pickle.dumps(compiled)

    def load(self, data: bytes, options: Any) -> Any:
        self.held += 1
        return pickle.loads(data)

    def compatible(self, meta: Any) -> str | None:
        return None

    def close(self) -> None:
        if self.close_error is not None:
            raise self.close_error
        self.held = 0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with graphwright.config.patch(artifact_cache="on", artifact_cache_dir=str(tmp_path / "store")):
        yield tmp_path / "store"


def f(x: torch.Tensor) -> torch.Tensor:
    return (x * x.shape[0]).relu()


def call(backend: Keeping, size: int = 3) -> list[Any]:
    """Compile and call from the start; returns the events of the cache."""
    x = torch.randn(size, 2)
    with events.collected(events.ArtifactCacheUsed, events.ArtifactRejected) as found:
        torch.testing.assert_close(graphwright.compile(f, backend=backend, dynamic=True)(x), f(x))
    return found


def test_a_second_backend_object_loads_what_the_first_compiled(folder: Path) -> None:
    first, second = Keeping(), Keeping()
    assert [event.result for event in call(first)] == ["miss", "saved"]
    (hit,) = call(second, size=5)
    assert (hit.result, hit.backend, second.compiled) == ("hit", "keeping", 0)
    assert hit.n_bytes > 0


class Holding(Keeping):
    """Holds its weights as constants, written by `torch.save`."""

    graph_form = GraphForm(level="aten", weights="frozen")

    def compile(self, graph: Any, example_inputs: Sequence[Any], options: Any) -> Any:
        self.compiled += 1
        (weight,) = constants_of(graph).values()
        return Product(weight.detach().clone())

    def save(self, compiled: Any) -> bytes:
        file = io.BytesIO()
        torch.save(compiled.weight, file)
        return file.getvalue()

    def load(self, data: bytes, options: Any) -> Any:
        return Product(torch.load(io.BytesIO(data), weights_only=True))


class Product:
    def __init__(self, weight: torch.Tensor) -> None:
        self.weight = weight

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x @ self.weight,)


@pytest.mark.usefixtures("folder")
def test_tensors_are_loaded_with_their_values() -> None:
    weight = torch.nn.Parameter(torch.randn(3, 3))
    compiled = []
    for _ in range(2):
        backend = Holding()
        function = graphwright.compile(lambda x: x @ weight, backend=backend)
        x = torch.randn(2, 3)
        with torch.no_grad():
            torch.testing.assert_close(function(x), x @ weight)
        compiled.append(backend.compiled)
        graphwright.reset()
    assert compiled == [1, 0]


class Exchanging(Keeping):
    """Keeps graphs with their weights, and exchanges those by name."""

    graph_form = GraphForm(weights="refit")

    def update_weights(self, compiled: Any, tensors: Mapping[str, torch.Tensor]) -> None:
        for name, tensor in tensors.items():
            getattr(compiled, name).data = tensor


class Scaling(torch.nn.Module):
    def __init__(self, name: str, other: str) -> None:
        super().__init__()
        self.names = (name, other)
        for each in self.names:
            setattr(self, each, torch.nn.Parameter(torch.ones(3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.names
        return x * getattr(self, first) + getattr(self, second)


@pytest.mark.usefixtures("folder")
def test_weights_of_other_names_are_not_taken_for_these() -> None:
    x, compiled = torch.randn(2, 3), []
    for names in (("scale", "shift"), ("shift", "scale"), ("scale", "shift")):
        backend, module = Exchanging(), Scaling(*names)
        function = graphwright.compile(module, backend=backend)
        with torch.no_grad():
            torch.testing.assert_close(function(x), module(x))
            getattr(module, names[0]).mul_(3)
            torch.testing.assert_close(function(x), module(x))
        compiled.append(backend.compiled)
        graphwright.reset()
    assert compiled == [1, 1, 0]


def test_off_by_default(tmp_path: Path) -> None:
    with graphwright.config.patch(artifact_cache_dir=str(tmp_path)):
        assert call(Keeping()) == []
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_artifact_warns(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    call(Keeping())
    (path,) = folder.rglob("*.gwa")
    path.write_bytes(path.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING, "graphwright"):
        rejected, saved = call(Keeping())
    assert isinstance(rejected, events.ArtifactRejected)
    assert saved.result == "saved"
    assert f"{path} is damaged" in caplog.text
    assert "so it is compiled" in caplog.text


def denied(*args: Any) -> Any:
    raise OSError("/dev/tc0: permission denied")


@pytest.mark.parametrize(
    ("method", "answer", "told"),
    [
        (
            "cache_key_parts",
            denied,
            "graphs of backend keeping are compiled, and neither looked up nor saved: cache_key",
        ),
        ("cache_key_parts", lambda *args: None, "cache_key_parts of backend 'keeping' returned None"),
        (
            "save",
            denied,
            "a graph that backend keeping compiled is not saved: save of backend 'keeping' raised OSError",
        ),
        ("save", lambda *args: "x", "is not saved: save of backend 'keeping' returned a str where bytes are expected"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_fault_of_the_backends_methods_is_told_and_the_graph_runs(
    method: str, answer: Any, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    backend = Keeping()
    setattr(backend, method, answer)
    with caplog.at_level(logging.WARNING, "graphwright"):
        found = call(backend)
    (rejected,) = [event for event in found if isinstance(event, events.ArtifactRejected)]
    assert (rejected.saving, not rejected.key) == (method == "save", method != "save")
    assert told in caplog.text
    assert backend.compiled == 1


def test_the_log_tells(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with graphwright.config.patch(logs="artifact_cache"):
        call(Keeping())
        call(Keeping())
    lines = [line for line in capsys.readouterr().err.splitlines() if "artifact_cache" in line]
    assert [line.split("] ")[1].split(" of ")[0] for line in lines] == ["miss", "saved", "hit"]


def test_a_wrong_setting_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="'off', 'on' or 'read_only', not 'yes'"):
        graphwright.config.artifact_cache = "yes"
    assert graphwright.config.artifact_cache == "off"


def test_reset_closes_the_backends_that_compiled() -> None:
    used, idle = Keeping(), Keeping()
    graphwright.compile(f, backend=idle)
    x = torch.randn(3)
    compiled = graphwright.compile(f, backend=used)
    compiled(x)
    assert used.held == 1
    graphwright.reset()
    assert used.held == 0
    idle.close_error = ValueError("never asked")
    torch.testing.assert_close(compiled(x), f(x))  # and what was compiled before works again
    assert (used.held, used.compiled) == (1, 2)
    graphwright.reset()


def test_a_backend_that_fails_to_close_is_told_after_all_else() -> None:
    backend = Keeping()
    compiled = graphwright.compile(f, backend=backend)
    compiled(torch.randn(3))
    backend.close_error = OSError("the handle is gone")
    with pytest.raises(BackendContractError, match="backend 'keeping': OSError: the handle is gone"):
        graphwright.reset()
    graphwright.reset()
    compiled(torch.randn(3))
    assert backend.compiled == 2
    backend.close_error = None


PROGRAM = """
import sys
import torch
import graphwright
from graphwright import events

torch.manual_seed(0)
layer = torch.nn.Linear(4, 3)

def infer(x):
    return layer(x).softmax(-1) * x.shape[0], x.shape[0], None

def train(x, w):
    return torch.nn.functional.gelu(x @ w).sum()

def run(fn, *args):
    return graphwright.compile(fn, backend="inductor_gpu", dynamic=True)(*args)

graphwright.config.artifact_cache, graphwright.config.artifact_cache_dir = "on", sys.argv[1]
told = []
events.subscribe(lambda event: told.append(event.result), events.ArtifactCacheUsed)
events.subscribe(lambda event: told.append(event.reason), events.ArtifactRejected)
size = int(sys.argv[2])
x, w = torch.randn(size, 4), torch.randn(4, 3, requires_grad=True)
with torch.no_grad():
    actual, expected = run(infer, x), infer(x)
torch.testing.assert_close(actual[0], expected[0])
assert actual[1:] == (size, None)
other = w.detach().clone().requires_grad_()
run(train, x, w).backward()
train(x, other).backward()
torch.testing.assert_close(w.grad, other.grad)
print(*told)
"""


@pytest.mark.slow
def test_inductor_loads_in_another_process_and_for_another_size(tmp_path: Path) -> None:
    pytest.importorskip("graphwright_inductor_gpu")
    told = []
    for size in ("5", "9"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "store"), size],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.split())
    assert told == [["miss", "saved", "miss", "saved"], ["hit", "hit"]]
