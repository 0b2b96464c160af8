import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gwsaving
import pytest
import torch
from gwsaving import PROGRAM, Run, SavingBackend, run

from graphwright_plugins import (
    ArtifactSettings,
    ArtifactStore,
    BackendResourceError,
    NotCacheable,
    ResolvedBackend,
    resolve_backend,
)
from graphwright_plugins.loading.contract import why_not_backend
from graphwright_plugins.testing import Program

SCRIPT = "import sys; sys.path.insert(0, sys.argv[1]); import gwsaving; gwsaving.main(sys.argv[2])"


@pytest.fixture
def settings(tmp_path: Path) -> ArtifactSettings:
    return ArtifactSettings("on", tmp_path / "store")


def files(settings: ArtifactSettings) -> list[Path]:
    return sorted(settings.place.rglob("*.gwa"))


def test_the_second_compile_loads(settings: ArtifactSettings) -> None:
    first, second = SavingBackend(), SavingBackend()
    assert run(first, settings).results == ["miss", "saved"]
    told = run(second, settings)
    assert told.results == ["hit"]
    assert told.outcomes[0].n_bytes > 0
    assert (first.compiled, second.compiled, second.loaded) == (1, 0, 1)
    assert first.wanted == [True]


def test_nothing_is_kept_where_nobody_asked(settings: ArtifactSettings) -> None:
    backend = SavingBackend()
    assert run(backend, ArtifactSettings("off", settings.folder)).results == []
    assert backend.wanted == [False]
    assert not settings.place.exists()


def test_a_backend_without_artifacts_is_left_alone(settings: ArtifactSettings) -> None:
    assert run(lambda gm, example_inputs: gm.forward, settings).results == []
    assert not settings.place.exists()


def key(settings: ArtifactSettings, backend: Any = None, options: Any = None, program: Program = PROGRAM) -> str:
    return run(backend or SavingBackend(), settings, options, program).outcomes[0].key


def program(make: Any, function: Any = PROGRAM.function) -> Program:
    return Program("q", function, make)


def two(**keywords: Any) -> Any:
    return lambda: (torch.randn(3, 3, **keywords), torch.randn(3, 3, **keywords))


def test_the_key_changes_with_all_that_counts(settings: ArtifactSettings) -> None:
    base = key(settings)
    keys = {
        "option": key(settings, options={"level": 2}),
        "nested option": key(settings, options={"table": {"a": [1, 2]}}),
        "nested option of another type": key(settings, options={"table": {"a": [1, 2.0]}}),
        "driver": key(settings, SavingBackend("2.0")),
        "dtype": key(settings, program=program(two(dtype=torch.float64))),
        "size": key(settings, program=program(lambda: (torch.randn(4, 3), torch.randn(3, 3)))),
        "stride": key(settings, program=program(lambda: (torch.randn(3, 3).t(), torch.randn(3, 3)))),
        "operation": key(settings, program=program(two(), lambda x, w: ((x @ w).tanh(), x.sum(0)))),
        "number": key(settings, program=program(two(), lambda x, w: ((x @ w).relu(), x.sum(1)))),
        "gradient": key(settings, program=program(two(requires_grad=True))),
    }
    resolved = resolve_backend(SavingBackend())
    for version in ("1.0", "1.1"):
        keys[f"version {version}"] = key(
            settings, ResolvedBackend("saving", "dist", version, resolved.options, resolved.backend)
        )
    with torch.no_grad():
        keys["grad mode"] = key(settings)
    with torch.autocast("cpu", torch.bfloat16):
        keys["autocast"] = key(settings)
    torch.use_deterministic_algorithms(True)
    try:
        keys["determinism"] = key(settings)
    finally:
        torch.use_deterministic_algorithms(False)
    assert len({base, *keys.values()}) == len(keys) + 1, keys
    assert key(settings) == base


def test_names_of_nodes_are_no_part_of_the_key(settings: ArtifactSettings) -> None:
    def other_names(left: Any, right: Any) -> Any:
        product = left @ right
        return (product.relu(), left.sum(0))

    assert key(settings) == key(settings, program=program(two(), other_names))


def test_a_truncated_file_is_a_miss_that_is_told(settings: ArtifactSettings) -> None:
    run(SavingBackend(), settings)
    (path,) = files(settings)
    path.write_bytes(path.read_bytes()[:-7])
    backend = SavingBackend()
    told = run(backend, settings)
    assert told.results == ["rejected", "saved"]
    assert "is damaged: it holds" in told.reasons
    assert backend.compiled == 1
    assert run(SavingBackend(), settings).results == ["hit"]


def test_an_artifact_under_a_wrong_key_is_not_loaded(settings: ArtifactSettings) -> None:
    right, wrong = key(settings), key(settings, options={"level": 2})
    store = ArtifactStore(settings.place, 10**9)
    (store.folder / wrong[:2] / f"{wrong}.gwa").write_bytes((store.folder / right[:2] / f"{right}.gwa").read_bytes())
    told = run(SavingBackend(), settings, {"level": 2})
    assert told.results == ["rejected", "saved"]
    assert "made for something else" in told.reasons


def test_a_load_that_the_backend_refuses_has_its_reason(settings: ArtifactSettings) -> None:
    run(SavingBackend(), settings)
    backend = SavingBackend()
    backend.refusal = "it was compiled for 8 cores, and there are 4"
    told = run(backend, settings)
    assert told.results == ["rejected", "saved"]
    assert "the backend refuses it: it was compiled for 8 cores" in told.reasons
    assert (backend.compiled, backend.loaded) == (1, 0)


@pytest.mark.parametrize("method", ["save", "load"])
def test_a_bug_of_the_backends_is_told_and_costs_no_result(settings: ArtifactSettings, method: str) -> None:
    if method == "load":
        run(SavingBackend(), settings)
    backend = SavingBackend()
    setattr(backend, f"{method}_error", ZeroDivisionError("mine"))
    told = run(backend, settings)
    assert told.results == (["miss", "not_saved"] if method == "save" else ["rejected", "saved"])
    assert f"{method} of backend 'saving' raised ZeroDivisionError: mine. Report it to the backend's" in told.reasons
    assert backend.compiled == 1


@pytest.mark.parametrize(
    ("method", "answer", "told"),
    [
        ("save", "text", "returned a str where bytes are expected"),
        ("save", None, "returned a NoneType where bytes are expected"),
        ("load", 3, "returned 3, which can't be called"),
        ("compatible", "", "returned ''; it must return None or a reason as text"),
        ("compatible", False, "returned False; it must return None or a reason as text"),
        ("compatible", True, "returned True; it must return None or a reason as text"),
    ],
)
def test_an_answer_that_is_no_answer_is_told_with_the_method(
    settings: ArtifactSettings, method: str, answer: Any, told: str
) -> None:
    if method != "save":
        run(SavingBackend(), settings)
    backend = SavingBackend()
    setattr(backend, method, lambda *args: answer)
    given = run(backend, settings)
    assert given.results == (["miss", "not_saved"] if method == "save" else ["rejected", "saved"])
    assert f"{method} of backend 'saving' {told}. Report it to the backend's authors" in given.reasons
    assert backend.compiled == 1


@pytest.mark.parametrize(
    "answer", [None, [("driver", "1")], OSError("/dev/tc0: permission denied"), BackendResourceError("x")]
)
def test_a_key_that_can_not_be_told_costs_no_result(settings: ArtifactSettings, answer: Any) -> None:
    def cache_key_parts(options: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    backend = SavingBackend()
    backend.cache_key_parts = cache_key_parts  # type: ignore[method-assign]
    told = run(backend, settings)
    assert (told.results, told.outcomes[0].key, backend.compiled) == (["rejected"], "", 1)
    assert re.search(
        r"cache_key_parts of backend 'saving' (raised OSError|raised Back|returned).*a mapping of names", told.reasons
    )
    assert files(settings) == []


def test_what_cannot_be_kept_says_why(settings: ArtifactSettings) -> None:
    backend = SavingBackend()
    backend.save_error = NotCacheable("it holds a handle")
    told = run(backend, settings)
    assert (told.results, told.outcomes[1].reason) == (["miss", "not_cached"], "it holds a handle")
    told = run(SavingBackend(), settings, {"level": 13})
    assert (told.results, told.reasons) == (["not_cached"], "level 13 measures as it compiles")
    told = run(SavingBackend(), settings, {"table": object()})
    assert told.results == ["not_cached"]
    assert "options.table is a object, which another process can't recognise" in told.reasons
    assert files(settings) == []


def test_a_backend_of_unknown_version_is_not_kept(settings: ArtifactSettings) -> None:
    class Unversioned(SavingBackend):
        def cache_key_parts(self, options: Any) -> dict[str, str]:
            return {"driver": "1"}

    told = run(Unversioned(), settings)
    assert told.results == ["not_cached"]
    assert "its version isn't known" in told.reasons


def test_a_graph_that_calls_the_users_function_is_not_kept(settings: ArtifactSettings) -> None:
    import torch.fx as fx

    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(own_function, (x,)),))
    module = fx.GraphModule({}, graph)
    told = Run()
    from graphwright_plugins import listen_to_cache, using_artifact_settings

    end = listen_to_cache(told.outcomes.append)
    with using_artifact_settings(settings):
        resolve_backend(SavingBackend()).compile(module, [torch.ones(2)])
    end()
    assert told.results == ["not_cached"]
    assert "own_function" in told.reasons


def own_function(x: Any) -> Any:
    return x + 1


def test_a_read_only_store_is_read_and_not_written(settings: ArtifactSettings) -> None:
    run(SavingBackend(), settings)
    reading = ArtifactSettings("read_only", settings.folder)
    backend = SavingBackend()
    assert run(backend, reading).results == ["hit"]
    assert run(backend, reading, {"level": 2}).results == ["miss"]
    assert backend.wanted == [False]
    assert len(files(settings)) == 1


@pytest.mark.skipif(
    os.name == "nt" or not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_a_folder_without_the_right_to_write_is_told(settings: ArtifactSettings) -> None:
    settings.place.mkdir(mode=0o500)
    told = run(SavingBackend(), settings)
    assert told.results == ["miss", "not_saved"]
    assert "can't be written" in told.reasons


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told = run(SavingBackend(), ArtifactSettings("on", tmp_path / "file"))
    assert told.results == ["miss", "not_saved"]
    assert "can't be written" in told.reasons


def test_half_a_set_of_methods_is_refused() -> None:
    backend = SavingBackend()
    backend.save = None  # type: ignore[assignment, method-assign]
    assert why_not_backend(backend) == "has 'cache_key_parts' and no method 'save'"


# ------------------------------------------------------------------------------------------------- several processes


def start(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(Path(gwsaving.__file__).parents[1]), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(process: "subprocess.Popen[str]") -> list[str]:
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out.split()


def test_another_process_loads_and_does_not_compile(settings: ArtifactSettings) -> None:
    writers = [start(settings.place) for _ in range(2)]  # at once, on one key
    written = [result(writer) for writer in writers]
    assert {tuple(line[1:3]) for line in written} <= {("0", "miss,saved"), ("1", "hit")}
    # Not this process, where tests before may have left state of torch that is part of the key.
    compiled, loaded, results, key = result(start(settings.place))
    assert (compiled, loaded, results) == ("0", "1", "hit")
    assert {line[3] for line in written} == {key} == {path.stem for path in files(settings)}


# ---------------------------------------------------------------------------------------------------- symbolic sizes


class Assuming(SavingBackend):
    """Assumes something of the first input's size while it compiles."""

    def __init__(self, assumption: Any) -> None:
        super().__init__()
        self.assumption = assumption

    def on_compile(self, example_inputs: Any) -> None:
        if not self.assumption(example_inputs[0].shape[0]):
            raise AssertionError("the test's assumption doesn't hold")


def compile_for_size(size: int, settings: ArtifactSettings, assumption: Any = None) -> tuple[Run, list[str], Any]:
    """Compile for symbolic sizes that are `size` now; returns what is assumed of them afterwards."""
    from torch import fx

    from graphwright_plugins import listen_to_cache, using_artifact_settings
    from graphwright_plugins.torch_compat import as_symbolic, new_fake_mode, tracing_context

    mode = new_fake_mode()
    graph = fx.symbolic_trace(lambda x: (x * 2,))
    example = as_symbolic(mode, torch.randn(size, 3), [0])
    backend = Assuming(assumption or (lambda n: True))
    told = Run()
    end = listen_to_cache(told.outcomes.append)
    with using_artifact_settings(settings), tracing_context(mode), warnings.catch_warnings():
        resolve_backend(backend).compile(graph, [example])
    end()
    return told, [str(guard.expr) for guard in mode.shape_env.guards], backend


def test_one_artifact_serves_sizes_that_nothing_was_assumed_of(settings: ArtifactSettings) -> None:
    assert compile_for_size(5, settings)[0].results == ["miss", "saved"]
    told, guards, _ = compile_for_size(9, settings)
    assert (told.results, guards) == (["hit"], [])


def test_what_compiling_assumed_is_assumed_again(settings: ArtifactSettings) -> None:
    _, guards, _ = compile_for_size(8, settings, lambda n: n % 4 == 0 and n < 100)
    assert guards
    told, again, backend = compile_for_size(16, settings)
    assert told.results == ["hit"]
    assert len(again) == len(guards)
    assert backend.compiled == 0


def test_sizes_that_it_was_not_compiled_for_are_a_miss_and_leave_no_guard(settings: ArtifactSettings) -> None:
    compile_for_size(8, settings, lambda n: n % 4 == 0)
    told, guards, backend = compile_for_size(9, settings)
    assert told.results == ["miss", "saved"]
    assert "it was compiled for sizes with" in told.reasons
    assert (guards, backend.compiled) == ([], 1)


def test_a_size_that_compiling_fixed_stays_fixed(settings: ArtifactSettings) -> None:
    compile_for_size(8, settings, lambda n: n == 8)
    told, guards, _ = compile_for_size(8, settings)
    assert told.results == ["hit"]
    assert len(guards) == 1
    assert compile_for_size(7, settings)[0].results == ["miss", "saved"]
