"""Finding plugins in package metadata without importing them, and importing one of them."""

import difflib
import importlib.metadata
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from stevedore.named import NamedExtensionManager

from graphwright_plugins.errors import PluginLoadError
from graphwright_plugins.naming import did_you_mean, listing, raised

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

    @property
    def authors(self) -> str:
        """To whom to report what is wrong with it, for messages: with an address, where the distribution gives one."""
        distribution = self.entry_point.dist
        address = None if distribution is None else _address(distribution.metadata)
        whose = f"the authors of {self.distribution}" if self.distribution else "its authors"
        return f"{whose} ({address})" if address else whose


def _address(metadata: Any) -> str | None:
    """Where a distribution's authors want to hear of faults, as far as its metadata tell."""
    given = (entry.partition(",") for entry in metadata.get_all("Project-URL") or ())
    urls: dict[str, str] = {label.strip().lower(): url.strip() for label, _, url in given}
    for wanted in _WHERE_TO_REPORT:
        for label, url in urls.items():
            if wanted in label and url:
                return url
    others = (metadata.get(field) for field in ("Home-page", "Maintainer-email", "Author-email"))
    return next((str(value) for value in others if value and value != "UNKNOWN"), None)


_WHERE_TO_REPORT: Final = ("issue", "bug", "tracker", "support", "repo", "source", "code", "home")
"""What labels of a project's addresses have in them, best first."""


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
    check_target(found)
    errors: list[BaseException] = []
    try:
        manager = _FoundManager(found.group, [found.entry_point], names=[found.name], errors=errors)
    except KeyboardInterrupt:
        raise
    # Stevedore hands on what is no Exception, as the SystemExit of a module that exits, and AssertionErrors.
    except BaseException as error:
        raise _import_error(found, error) from error
    if errors:
        raise _import_error(found, errors[0]) from errors[0]
    return manager.extensions[0].plugin


def check_target(found: FoundPlugin) -> None:
    """Check that an entry point names something; nothing is imported.

    Raises:
        PluginLoadError: What it says is no reference to an object.
    """
    try:
        is_reference = bool(found.entry_point.module)
    except (AttributeError, ValueError):  # what Python raises for text that isn't one
        is_reference = False
    if not is_reference:
        raise load_error(found, f"its entry point says {found.target!r}, which isn't of the form 'module:attribute'")


def _import_error(found: FoundPlugin, error: BaseException) -> PluginLoadError:
    told = raised(error)
    if isinstance(error, SyntaxError) and error.filename:  # its message has the file's last name alone
        told = f"{type(error).__name__}: {error.msg} in {error.filename}, line {error.lineno}"
    return load_error(found, f"importing {found.target!r} raised {told}")


def load_error(found: FoundPlugin, fault: str) -> PluginLoadError:
    """The error for a plugin that can't be loaded: whose it is, what is wrong, what to do."""
    return PluginLoadError(
        f"plugin {found.name!r} of {found.owner} can't be loaded: {fault}. Repair or uninstall it, or set "
        f"{DISABLED_VARIABLE}={found.name}; report it to {found.authors}.",
        plugin=found.name,
        distribution=found.distribution,
        version=found.version,
    )


def find_misplaced(name: str) -> tuple[FoundPlugin, ...]:
    """Entry points of this name in groups that were probably meant to be one of those of backends; imports nothing."""
    groups = (BACKEND_GROUP, TORCH_BACKEND_GROUP)
    return tuple(
        describe_entry_point(entry_point)
        for entry_point in importlib.metadata.entry_points(name=name)
        if entry_point.group not in groups
        and ("graphwright" in entry_point.group.lower() or difflib.get_close_matches(entry_point.group, groups))
    )


def disabled_plugins(environment: Mapping[str, str] | None = None) -> frozenset[str]:
    """Names that the environment blocks."""
    value = (os.environ if environment is None else environment).get(DISABLED_VARIABLE, "")
    return frozenset(name.strip() for name in value.split(",") if name.strip())


def why_blocks_nothing(name: str, installed: Sequence[FoundPlugin]) -> str | None:
    """What a name in `GRAPHWRIGHT_DISABLED_PLUGINS` is that blocks no plugin, in words; None of one that blocks."""
    if any(found.name == name for found in installed):
        return None
    offered = {found.name for found in installed if _distribution_key(found.distribution) == _distribution_key(name)}
    if offered:
        return f"{name!r}, which is a distribution and blocks nothing: name its plugins, {listing(offered)}."
    return f"{name!r}, which no installed plugin is called.{did_you_mean(name, {found.name for found in installed})}"


def _distribution_key(name: str | None) -> str | None:
    """A distribution's name in the form in which such names are compared."""
    return None if name is None else re.sub(r"[-_.]+", "-", name).lower()
