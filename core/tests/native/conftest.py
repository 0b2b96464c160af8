"""Loads the C extension, with torch where it is installed; everything here but the tensor tests works without."""

import gc
import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest


def load_native() -> ModuleType:
    """The extension; from its file where the package around it cannot be imported (no torch)."""
    try:
        return importlib.import_module("graphwright._native")
    except ImportError:
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        path = Path(__file__).parents[2] / "src" / "graphwright" / f"_native{suffix}"
        spec = importlib.util.spec_from_file_location("graphwright._native", path)
        if spec is None or spec.loader is None or not path.exists():
            pytest.skip(
                f"the C extension is not built for this Python: {path.name} is missing", allow_module_level=True
            )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@pytest.fixture(scope="session")
def native_module() -> ModuleType:
    return load_native()


@pytest.fixture
def native(native_module: ModuleType) -> Iterator[ModuleType]:
    """The extension; afterwards caches are empty, and nothing may be left switched on in this thread."""
    yield native_module
    native_module.reset_all()
    assert native_module.set_stance(0) == 0
    assert not native_module.is_capturing()
    assert native_module.hook_depth() == 0


Node = tuple[str, Any, list[tuple[Any, ...]], list[Any], int]


def nothing() -> None:
    """The function guards are checked for when they do not look at it."""


@pytest.fixture
def tree_of(native: ModuleType) -> Callable[..., Any]:
    """`tree_of(*checks)` guards the first argument; `tree_of(path=[(accessor, key)...], ...)` a value below it."""

    def make(*checks: tuple[Any, ...], path: list[tuple[str, Any]] | None = None, slot: int = -1) -> Any:
        steps = [("local", 0), *(path or [])]
        node: Node | None = None
        for accessor, key in reversed(steps):
            node = (accessor, key, [] if node else list(checks), [node] if node else [], -1 if node else slot)
        return native.GuardTree([node], slot + 1)

    return make


@pytest.fixture
def passes(tree_of: Callable[..., Any]) -> Callable[..., bool]:
    """`passes(value, *checks, path=...)`: whether checks hold for a value (reached from the first argument)."""

    def check(value: object, *checks: tuple[Any, ...], path: list[tuple[str, Any]] | None = None) -> bool:
        return bool(tree_of(*checks, path=path).check((value,), nothing))

    return check


@pytest.fixture
def make_entry(native: ModuleType) -> Callable[..., Any]:
    """`make_entry(function or code, roots=[...], n_inputs=0)`."""

    def make(
        target: FunctionType | CodeType,
        roots: list[Any] | None = None,
        n_slots: int = 0,
        n_inputs: int = 0,
        **kwargs: Any,
    ) -> Any:
        code = target.__code__ if isinstance(target, FunctionType) else target
        return native.Entry(native.GuardTree(roots or [], n_slots), code, n_inputs, **kwargs)

    return make


@pytest.fixture
def collected() -> Iterator[None]:
    """Runs with the collector off and collects after: what is checked for must go by itself."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


PY312 = sys.version_info >= (3, 12)
