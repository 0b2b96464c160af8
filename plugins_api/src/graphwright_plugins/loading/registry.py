"""The backends that installed packages offer: listing them without importing, loading one by name."""

import functools
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from graphwright_plugins.errors import BackendDisabled, DuplicateBackend, PluginError, PluginWarning, UnknownBackend
from graphwright_plugins.naming import backend_in_words, did_you_mean, listing
from graphwright_plugins.protocol import Backend

from .contract import check_api_version, check_available, check_backend
from .entry_points import (
    BACKEND_GROUP,
    DISABLED_VARIABLE,
    PLUGIN_GROUP,
    TORCH_BACKEND_GROUP,
    FoundPlugin,
    check_target,
    disabled_plugins,
    find_misplaced,
    find_plugins,
    import_plugin,
    why_blocks_nothing,
)
from .manifest import BackendManifest, check_manifest, read_manifest
from .manifest_file import MANIFEST_NAME

HOW_TO_INSTALL = (
    "More come with packages: graphwright-eager ('eager', 'aot_eager'), graphwright-inductor-gpu ('inductor_gpu'), "
    f"graphwright-cudagraphs ('cudagraphs'), or any package with an entry point in the group {BACKEND_GROUP!r} or "
    f"{TORCH_BACKEND_GROUP!r}; install one with `python -m pip install NAME`."
)

_FOR_TORCHS_TESTS: Final = "_TESTING_ONLY"
"""What the names end with by which torch registers backends for its own tests."""

OFFERED_PREFIX: Final = "graphwright_"
"""What the names begin with by which torch.compile finds Graphwright's backends."""


@dataclass(frozen=True)
class BackendInfo:
    """One backend as the installed metadata describe it."""

    name: str
    """The name to choose it by."""
    distribution: str | None
    """The distribution that offers it."""
    version: str | None
    """That distribution's version."""
    target: str
    """What would be imported, as `module:attribute`."""
    group: str
    """The entry-point group it was found in."""
    disabled: bool
    """Whether the environment blocks it."""
    _probe: Callable[[], PluginError | None] = field(repr=False, compare=False)
    _look: Callable[[], BackendManifest | PluginError | None] = field(repr=False, compare=False)

    @property
    def manifest(self) -> BackendManifest | None:
        """What its package says of it: interface version, devices, capabilities.

        Read from the package's data file each time, without importing anything; None where it ships none, or where
        `known_error` says what is wrong with it.
        """
        found = self._look()
        return found if isinstance(found, BackendManifest) else None

    @property
    def known_error(self) -> PluginError | None:
        """Why this backend can't be used, as far as that is known without importing it; `error` knows more."""
        found = self._look()
        return found if isinstance(found, PluginError) else None

    @property
    def error(self) -> PluginError | None:
        """Why this backend can't be used here: broken, blocked or unavailable; None when it can.

        Reading it imports the backend and asks it whether it is available, as nothing else tells. Of a backend that is
        made for torch.compile it tells only whether it can be imported.
        """
        return self._probe()

    def __str__(self) -> str:
        """The backend, who offers it, and what it can do as far as that is known without importing it."""
        owner = f"{self.distribution} {self.version}" if self.distribution else self.target
        found = self._look()
        if found is not None:
            told = str(found)
        elif self.group == BACKEND_GROUP:
            told = f"it ships no {MANIFEST_NAME}, so only importing it tells what it can do"
        else:
            told = "made for torch.compile, where backends don't say what they can do"
        return f"{self.name} ({owner}): {told}"


@dataclass(frozen=True)
class LoadedBackend:
    """A backend that was imported and passed the contract's checks."""

    backend: Backend
    """The backend."""
    found: FoundPlugin
    """Where it came from."""


class BackendRegistry:
    """Backends by name. What was found is fixed; what was loaded is remembered, failures are tried anew."""

    def __init__(self, found: Iterable[FoundPlugin], disabled: frozenset[str] = frozenset()) -> None:
        """Take what was found in one or more groups.

        Args:
            found: Entry points of backends.
            disabled: Names that the environment blocks.
        """
        by_name: defaultdict[str, list[FoundPlugin]] = defaultdict(list)
        for plugin in found:
            by_name[plugin.name].append(plugin)
        self._by_name = dict(by_name)
        self._disabled = disabled
        self._loaded: dict[str, LoadedBackend] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @property
    def names(self) -> tuple[str, ...]:
        """Names that at least one package offers, blocked ones left out."""
        return tuple(sorted(self._by_name.keys() - self._disabled))

    def load(self, name: str) -> LoadedBackend:
        """Import the backend of this name and check it.

        Raises:
            UnknownBackend: No package offers it.
            BackendDisabled: The environment blocks it.
            DuplicateBackend: Two distributions offer it.
            PluginLoadError: It can't be imported, or was written for another version of the contract.
            ManifestError: Its manifest can't be read, or contradicts what was imported.
            BackendContractError: What was imported isn't a backend.
        """
        if name in self._loaded:
            return self._loaded[name]
        found = self.find(name)
        manifest = _checked_manifest(found)
        loaded = LoadedBackend(check_backend(import_plugin(found), found), found)
        check_manifest(manifest, loaded.backend, found)
        self._loaded[name] = loaded
        return loaded

    def find(self, name: str) -> FoundPlugin:
        """The one entry point of this name, without importing it.

        Raises:
            UnknownBackend: No package offers it.
            BackendDisabled: The environment blocks it.
            DuplicateBackend: Two distributions offer it.
        """
        candidates = self._by_name.get(name, [])
        if not candidates:
            raise unknown_backend(name, self.names)
        if name in self._disabled:
            raise BackendDisabled(
                f"backend {name!r} of {candidates[0].owner} is blocked by {DISABLED_VARIABLE}; take it out of there.",
                name=name,
            )
        if len(candidates) > 1:
            raise duplicate_backend(name, [candidate.owner for candidate in candidates])
        return candidates[0]

    def infos(self) -> list[BackendInfo]:
        """Every backend found, by name, blocked and broken ones too; imports none."""
        return [self._info(plugin) for name in sorted(self._by_name) for plugin in self._by_name[name]]

    def _info(self, plugin: FoundPlugin) -> BackendInfo:
        return BackendInfo(
            name=plugin.name,
            distribution=plugin.distribution,
            version=plugin.version,
            target=plugin.target,
            group=plugin.group,
            disabled=plugin.name in self._disabled,
            _probe=functools.partial(self._probe, plugin),
            _look=functools.partial(self._look, plugin),
        )

    def _look(self, plugin: FoundPlugin) -> BackendManifest | PluginError | None:
        try:
            self.find(plugin.name)
            return _checked_manifest(plugin) if plugin.group == BACKEND_GROUP else None
        except PluginError as error:
            return error

    def _probe(self, plugin: FoundPlugin) -> PluginError | None:
        try:
            if plugin.group == BACKEND_GROUP:
                backend = self.load(plugin.name).backend
                check_available(backend, backend_in_words(plugin.name, plugin.distribution, plugin.version))
            else:  # another contract's plugin: that it can be imported is all there is to check
                self.find(plugin.name)
                import_plugin(plugin)
        except PluginError as error:
            return error
        return None


def _checked_manifest(found: FoundPlugin) -> BackendManifest | None:
    check_target(found)
    manifest = read_manifest(found)
    if manifest is not None:
        check_api_version(manifest, found)
    return manifest


def unknown_backend(name: str, known: Iterable[str]) -> UnknownBackend:
    """The error for a name nobody offers: what is installed, what is near, how to install more."""
    names = tuple(sorted(known))
    shown = [each for each in names if not each.endswith(_FOR_TORCHS_TESTS)]
    misplaced = "".join(
        f" {found.owner} has an entry point {name!r} in the group {found.group!r}, where nobody looks for backends: "
        f"they belong into {BACKEND_GROUP!r}."
        for found in find_misplaced(name)
    )
    return UnknownBackend(
        f"no backend is called {name!r}.{misplaced}{did_you_mean(name, shown)} Installed are: {listing(shown)}. "
        f"{HOW_TO_INSTALL}",
        name=name,
        known=names,
    )


def duplicate_backend(name: str, owners: Iterable[str]) -> DuplicateBackend:
    """The error for a name that several distributions offer."""
    owners = tuple(owners)
    return DuplicateBackend(
        f"backend {name!r} is offered by {' and by '.join(owners)}. Uninstall all but one of them, or pass the backend "
        f"object you want in place of its name.",
        name=name,
        owners=owners,
    )


@functools.cache
def default_registry() -> BackendRegistry:
    """The backends of the group `graphwright.backends` that are installed in this environment.

    Warns of names in `GRAPHWRIGHT_DISABLED_PLUGINS` that block nothing, here, where each program comes by once.
    """
    found, disabled = find_plugins(BACKEND_GROUP), disabled_plugins()
    if disabled:
        installed = (*found, *find_plugins(PLUGIN_GROUP), *find_plugins(TORCH_BACKEND_GROUP))
        faults = filter(None, (why_blocks_nothing(name, installed) for name in sorted(disabled)))
        if told := " ".join(f"{DISABLED_VARIABLE} has {fault}" for fault in faults):
            warnings.warn(told, PluginWarning, stacklevel=2)
    return BackendRegistry(found, disabled)


@functools.cache
def torch_entry_points() -> BackendRegistry:
    """The backends that packages offer to torch.compile by entry point."""
    return BackendRegistry(find_plugins(TORCH_BACKEND_GROUP), disabled_plugins())


def refresh() -> None:
    """Forget what was found and loaded, as after installing a package in a running process."""
    default_registry.cache_clear()
    torch_entry_points.cache_clear()


def load_backend(name: str) -> Backend:
    """Import the backend of this name from the group `graphwright.backends`.

    Raises:
        PluginError: See `BackendRegistry.load`.
    """
    return default_registry().load(name).backend


def list_backends() -> list[BackendInfo]:
    """Every backend that an installed package offers, by name, those for torch.compile last; imports none of them.

    A name in both groups is listed once, as Graphwright's group is asked first. So is a backend of Graphwright's that
    its package offers to torch.compile too, as `graphwright_<name>`. A row's `manifest` says what the backend can do,
    where its package ships one. Read a row's `error` to learn whether it can be used: that imports the backend.
    """
    ours = default_registry()
    offered = {(f"{OFFERED_PREFIX}{info.name}", info.distribution) for info in ours.infos()}
    others = [
        info
        for info in torch_entry_points().infos()
        if info.name not in ours and (info.name, info.distribution) not in offered
    ]
    return [*ours.infos(), *others]
