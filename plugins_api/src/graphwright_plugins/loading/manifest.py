"""What a plugin says of its backends in a data file of its own, so that nothing of it is imported to learn it."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

import torch

from graphwright_plugins.errors import ManifestError
from graphwright_plugins.naming import did_you_mean, listing
from graphwright_plugins.protocol import Backend, Capabilities, HasArtifacts, Tolerance
from graphwright_plugins.version import API_VERSION

from .contract import api_version_of
from .entry_points import FoundPlugin
from .manifest_file import find_manifest_file

_NO_DEVICES_KEY: Final = "absent, which means every device"


@dataclass(frozen=True)
class BackendManifest:
    """What the data file says of one backend. What it leaves out is as the defaults are, here and in `Capabilities`."""

    file: str
    """The file's path."""
    vendor: str | None = None
    """Who makes the backend."""
    api_version: tuple[int, int] = (1, 0)
    """The contract version that the plugin was written for."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    """What the backend can do."""
    caching: bool = False
    """Whether what it compiled can be saved; see `HasArtifacts`."""

    def __str__(self) -> str:
        devices = self.capabilities.devices
        where = "every device" if devices is None else ", ".join(sorted(devices)) or "no device"
        abilities = [name.replace("_", " ") for name in _FLAGS if getattr(self.capabilities, name)]
        vendor = f"by {self.vendor}; " if self.vendor else ""
        return f"{vendor}{where}; " + ", ".join(["inference", *abilities, *(["caching"] if self.caching else [])])


class _IllTyped(ValueError):
    """Why a value in the file isn't what it should be, as a clause."""


def read_manifest(found: FoundPlugin) -> BackendManifest | None:
    """What a backend's package says of it, or None where it ships no such file. Nothing of the plugin is imported.

    Raises:
        ManifestError: The file can't be read, isn't TOML, has no table for this backend, or a wrong key or value.
    """
    try:
        present = find_manifest_file(found.target)
    except OSError as error:
        raise _error(found, str(error.filename), f"can't be read: {error.strerror or error}") from error
    if present is None:
        return None
    path, data = present
    try:
        return parse_manifest(path, data, found.name)
    except ValueError as error:  # what isn't UTF-8, isn't TOML, or is ill-typed
        raise _error(found, path, str(error)) from error


def parse_manifest(path: str, data: bytes, name: str) -> BackendManifest:
    """What a file says of the backend of this name.

    Raises:
        ValueError: It isn't TOML, has no table for this backend, or a wrong key or value in it.
    """
    whole = tomllib.loads(data.decode())
    tables = whole.get("backends")
    if not isinstance(tables, Mapping) or name not in tables:
        known = listing(tables) if isinstance(tables, Mapping) else "none"
        raise _IllTyped(f"has no table [backends.{name}]; its tables of backends are: {known}")
    table = tables[name]
    if not isinstance(table, Mapping):
        raise _IllTyped(f"has a value for backends.{name} that isn't a table")
    values = {}
    for key, value in table.items():
        convert = _CONVERTERS.get(key)
        if convert is not None:
            try:
                values[key] = convert(value)
            except _IllTyped as error:
                raise _IllTyped(f"has {key!r} in [backends.{name}], which {error}") from None
        elif not _is_from_the_future(table):
            raise _IllTyped(f"has an unknown key {key!r} in [backends.{name}].{did_you_mean(key, _CONVERTERS)}")
    own = {key: values.pop(key) for key in _OWN if key in values}
    return BackendManifest(path, capabilities=Capabilities(**values), **own)


def contradictions(manifest: BackendManifest, backend: Backend) -> list[str]:
    """Where a manifest says other than the backend's object; each as a clause that names both values."""
    stated = {"api_version": manifest.api_version, "caching": manifest.caching}
    actual = {"api_version": api_version_of(backend), "caching": isinstance(backend, HasArtifacts)}
    for each in fields(Capabilities):
        stated[each.name] = getattr(manifest.capabilities, each.name)
        actual[each.name] = getattr(backend.capabilities, each.name)
    return [
        f"{key!r} is {_in_toml(key, stated[key])} in the file and {_in_toml(key, actual[key])} on the object"
        for key in stated
        if stated[key] != actual[key]
    ]


def check_manifest(manifest: BackendManifest | None, backend: Backend, found: FoundPlugin) -> None:
    """Check that a backend's manifest tells the truth.

    Raises:
        ManifestError: It says other than the object's attributes.
    """
    wrong = [] if manifest is None else contradictions(manifest, backend)
    if manifest is not None and wrong:
        raise _error(found, manifest.file, f"contradicts the object {found.target}: {'; '.join(wrong)}")


def _error(found: FoundPlugin, path: str, fault: str) -> ManifestError:
    end = "" if fault.endswith((".", "?")) else "."
    return ManifestError(
        f"the manifest of backend {found.name!r} of {found.owner}, {path}, {fault}{end} "
        "Repair the file, or report it to the plugin's authors.",
        plugin=found.name,
        distribution=found.distribution,
        version=found.version,
        file=path,
    )


def _is_from_the_future(table: Mapping[str, Any]) -> bool:
    """Whether the plugin was written for a later contract, which may know more keys."""
    try:
        return _version(table.get("api_version", [1, 0])) > API_VERSION
    except _IllTyped:
        return False


# ------------------------------------------------------------------ from TOML


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise _IllTyped(f"must be a text, not {value!r}")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _IllTyped(f"must be true or false, not {value!r}")
    return value


def _version(value: object) -> tuple[int, int]:
    if not (isinstance(value, list) and len(value) == 2 and all(type(part) is int for part in value)):
        raise _IllTyped(f"must be a list of two whole numbers such as [1, 0], not {value!r}")
    return value[0], value[1]


def _texts(value: object) -> frozenset[str]:
    if not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        raise _IllTyped(f"must be a list of texts, not {value!r}")
    return frozenset(value)


def _dtypes(value: object) -> frozenset[torch.dtype]:
    return frozenset(map(_dtype, _texts(value)))


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise _IllTyped(f"names {name!r}, which is no dtype of torch's")
    return dtype


def _tolerances(value: object) -> Mapping[torch.dtype, Tolerance]:
    if not isinstance(value, Mapping):
        raise _IllTyped(f"must be a table, not {value!r}")
    return {_dtype(name): _tolerance(name, item) for name, item in value.items()}


def _tolerance(name: str, value: object) -> Tolerance:
    if not isinstance(value, Mapping) or value.keys() != {"rtol", "atol"}:
        raise _IllTyped(f"must have {{ rtol = ..., atol = ... }} for {name}, not {value!r}")
    for number in value.values():
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise _IllTyped(f"must have numbers for {name}, not {number!r}")
    return Tolerance(float(value["rtol"]), float(value["atol"]))


_FLAGS: Final = tuple(each.name for each in fields(Capabilities) if isinstance(each.default, bool))
_OWN: Final = ("vendor", "api_version", "caching")
_CONVERTERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "vendor": _text,
    "api_version": _version,
    "caching": _flag,
    "devices": _texts,
    "dtypes": _dtypes,
    "tolerances": _tolerances,
    **dict.fromkeys(_FLAGS, _flag),
}


# ------------------------------------------------------------------ to TOML, for messages


def _in_toml(key: str, value: Any) -> str:
    if key == "devices" and value is None:
        return _NO_DEVICES_KEY
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (set, frozenset)):
        names = ", ".join(f'"{str(item).removeprefix("torch.")}"' for item in sorted(value, key=str))
        return f"[{names}]"
    if isinstance(value, Mapping):
        entries = (
            f"{str(dtype).removeprefix('torch.')} = {{ rtol = {each.rtol}, atol = {each.atol} }}"
            for dtype, each in value.items()
        )
        return f"{{ {', '.join(entries)} }}"
    return str(list(value)) if isinstance(value, tuple) else repr(value)
