"""Ambient guards: every part of the thread's state that capture depends on."""

import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
spec = importlib.util.spec_from_file_location("torch_readers", Path(__file__).with_name("torch_readers.py"))
assert spec is not None
assert spec.loader is not None
readers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(readers)


@pytest.fixture(params=["fast", "python"])
def way(native: ModuleType, request: pytest.FixtureRequest) -> Iterator[str]:
    def lying() -> dict[str, Any]:
        return readers.read_ambient() | {"deterministic": torch.is_grad_enabled()}

    if request.param == "fast":
        assert readers.setup(native)["ambient"]
    else:
        report = readers.setup(native, ambient_reader=lying)
        assert report["ambient_reason"] == "libtorch disagrees with Python on deterministic"
        # From here on the reader tells the truth; the fast way stays off until the next set-up.
        lying.__code__ = readers.read_ambient.__code__.replace(co_freevars=())
        lying.__globals__.update(
            {"function_mode_state": readers.function_mode_state, "attention_kernels": readers.attention_kernels}
        )
    yield request.param
    readers.setup(native)


def plain() -> None: ...


def test_readings_agree(native: ModuleType, way: str) -> None:
    for context in readers.contexts().values():
        with context:
            got, expected = native.read_ambient(), readers.read_ambient()
            for name in expected:
                if name not in ("included", "excluded"):
                    assert got[name] == expected[name]


@pytest.mark.parametrize("name", list(readers.contexts()))
def test_each_change_is_seen(native: ModuleType, way: str, name: str) -> None:
    outside = native.GuardTree([], 0, [], True)
    unguarded = native.GuardTree([], 0, [], False)
    with readers.contexts()[name]:
        inside = native.GuardTree([], 0, [], True)
        assert inside.check((), plain)
        assert not outside.check((), plain)
        path, (kind, field, expected, found) = outside.first_failure((), plain)
        assert (path, kind) == ((), "ambient")
        assert expected != found
        if name in readers.read_ambient():
            assert field == name or name in (
                "deterministic_warn_only",
                "inference_mode",
                "autocast_cpu_dtype",
                "autocast_cache",
            )
        assert unguarded.check((), plain)
    assert outside.check((), plain)
    assert not inside.check((), plain)
    with readers.contexts()[name]:
        assert inside.check((), plain) == (name not in ("function_modes",)) or way == "python"


def test_default_devices_are_told_apart(native: ModuleType) -> None:
    readers.setup(native)
    with torch.device("meta"):
        meta = native.GuardTree([], 0, [], True)
    with torch.device("cpu"):
        assert not meta.check((), plain)
        assert meta.first_failure((), plain)[1][1] == "function_modes"
    with torch.device("meta"):
        assert meta.check((), plain)


def test_threads_have_their_own(native: ModuleType) -> None:
    readers.setup(native)
    with torch.no_grad():
        tree = native.GuardTree([], 0, [], True)
        results: list[bool] = []

        def run() -> None:
            results.append(tree.check((), plain))
            with torch.no_grad():
                results.append(tree.check((), plain))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert results == [False, True]
        assert tree.check((), plain)
