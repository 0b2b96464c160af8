"""Finding plugins in package metadata without importing them, and importing one of them."""

import importlib.metadata
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from stevedore.named import NamedExtensionManager

from graphwright_plugins.errors import PluginLoadError

BACKEND_GROUP: Final = "graphwright.backends"
"""Entry-point group of backends: one name, one backend."""
PLUGIN_GROUP: Final = "graphwright.plugins"
"""Entry-point group of observers and graph transforms."""
TORCH_BACKEND_GROUP: Final = "torch_dynamo_backends"
"""torch.compile's entry-point group: the names in it work as Graphwright backends too."""
DISABLED_VARIABLE: Final = "GRAPHWRIGHT_DISABLED_PLUGINS"
"""Environment variable with the names of plugins to block, separated by commas."""


@dataclass(frozen=True)
class FoundPlugin:
    """An entry point and who owns it; nothing of the plugin is imported yet."""

    name: str
    """The entry point's name."""
    group: str
    """The entry-point group."""
    target: str
    """What it names, as `module:attribute`."""
    distribution: str | None
    """The installed distribution that declares it."""
    version: str | None
    """That distribution's version."""
    entry_point: importlib.metadata.EntryPoint = field(repr=False, compare=False)
    """The entry point itself."""

    @property
    def owner(self) -> str:
        """Distribution and version as one word group, for messages."""
        if self.distribution is None:
            return f"an unnamed distribution ({self.target})"
        return f"{self.distribution} {self.version}"


class _FoundManager(NamedExtensionManager[Any]):
    """Stevedore's loader over entry points read from the installed metadata of this moment.

    Stevedore's own list comes from a cache that loses the owning distribution and compares file times at a
    resolution of minutes, so that a package reinstalled a moment ago can be missed.
    """

    def __init__(
        self, group: str, entry_points: Iterable[importlib.metadata.EntryPoint], names: list[str], errors: list[Any]
    ) -> None:
        self._found = list(entry_points)
        super().__init__(
            group,
            names=names,
            on_load_failure_callback=lambda _manager, _entry_point, error: errors.append(error),
            on_missing_entrypoints_callback=None,
        )

    def list_entry_points(self) -> list[importlib.metadata.EntryPoint]:
        return list(self._found)


def find_plugins(group: str) -> tuple[FoundPlugin, ...]:
    """All installed plugins of an entry-point group, by name; imports none of them."""
    entry_points = importlib.metadata.entry_points(group=group)
    manager = _FoundManager(group, entry_points, names=[], errors=[])
    return tuple(sorted(map(describe_entry_point, manager.list_entry_points()), key=lambda found: found.name))


def describe_entry_point(entry_point: importlib.metadata.EntryPoint) -> FoundPlugin:
    """Join an entry point with the distribution that declares it."""
    distribution = entry_point.dist
    return FoundPlugin(
        name=entry_point.name,
        group=entry_point.group,
        target=entry_point.value,
        distribution=None if distribution is None else distribution.name,
        version=None if distribution is None else distribution.version,
        entry_point=entry_point,
    )


def import_plugin(found: FoundPlugin) -> Any:
    """Import what an entry point names.

    Raises:
        PluginLoadError: The import failed; the cause is chained.
    """
    errors: list[BaseException] = []
    try:
        manager = _FoundManager(found.group, [found.entry_point], names=[found.name], errors=errors)
    except Exception as error:  # stevedore hands on an AssertionError instead of reporting it to the callback
        raise _load_error(found, error) from error
    if errors:
        raise _load_error(found, errors[0]) from errors[0]
    return manager.extensions[0].plugin


def _load_error(found: FoundPlugin, error: BaseException) -> PluginLoadError:
    return PluginLoadError(
        f"plugin {found.name!r} of {found.owner} can't be loaded: importing {found.target!r} raised "
        f"{type(error).__name__}: {error}. Repair or uninstall it, or set {DISABLED_VARIABLE}={found.name}.",
        plugin=found.name,
        distribution=found.distribution,
        version=found.version,
    )


def disabled_plugins(environment: Mapping[str, str] | None = None) -> frozenset[str]:
    """Names that the environment blocks."""
    value = (os.environ if environment is None else environment).get(DISABLED_VARIABLE, "")
    return frozenset(name.strip() for name in value.split(",") if name.strip())
