"""Plugins that exist only inside a test."""

import importlib.metadata
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from graphwright_plugins import refresh
from graphwright_plugins.loading.entry_points import BACKEND_GROUP, FoundPlugin


@pytest.fixture
def make_plugin(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FoundPlugin]:
    """Make an entry point to an object, or to one whose import raises."""

    def make(
        name: str,
        target: Any,
        distribution: str | None = "dist-a",
        version: str | None = "1.2",
        group: str = BACKEND_GROUP,
    ) -> FoundPlugin:
        module_name = f"made_plugin_{(distribution or 'none').replace('-', '_')}_{name}"
        if isinstance(target, BaseException):
            module: types.ModuleType = RaisingModule(module_name, target)
        else:
            module = types.ModuleType(module_name)
            module.target = target  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module_name, module)
        entry_point = importlib.metadata.EntryPoint(name, f"{module_name}:target", group)
        return FoundPlugin(name, group, entry_point.value, distribution, version, entry_point)

    return make


class RaisingModule(types.ModuleType):
    """A module from which nothing can be imported."""

    def __init__(self, name: str, error: BaseException) -> None:
        super().__init__(name)
        self.__dict__["_error"] = error

    def __getattr__(self, name: str) -> Any:
        raise self.__dict__["_error"]


@pytest.fixture(autouse=True)
def _fresh_registries() -> Iterator[None]:
    refresh()
    yield
    refresh()
