"""The attributes by which the framework knows a backend: reading them safely, and names that miss one by a letter."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from graphwright_plugins.errors import PluginWarning
from graphwright_plugins.naming import raised

REQUIRED: Final = ("name", "capabilities", "compile")
"""What every backend has."""

METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "compile": ("graph", "example_inputs", "options"),
    "available": (),
    "close": (),
    "prepare": ("options",),
    "supports": ("node", "options"),
    "partition": ("graph", "example_inputs", "options"),
    "update_weights": ("compiled", "tensors"),
    "cache_key_parts": ("options",),
    "save": ("compiled",),
    "load": ("data", "options"),
    "compatible": ("meta",),
}
"""The methods of the contract with their arguments, which are given by position."""

ARTIFACT_METHODS: Final = ("cache_key_parts", "save", "load", "compatible")
"""Those that count only together."""

VALUES: Final = (
    "name",
    "capabilities",
    "options_type",
    "modes",
    "api_version",
    "graph_form",
    "capture_advice",
    "fallback_backend",
    "minimum_part_size",
)
"""The other attributes of the contract."""

MEMBERS: Final = (*VALUES, *METHODS)
"""All of them."""

_NEAR: Final = 0.87
"""How alike two names are that differ by a slip: `suports` and `supports`, but not `is_available` and `available`."""


def has_member(candidate: object, name: str) -> bool:
    """Whether an object has an attribute; one that raises when it is read is there."""
    try:
        return hasattr(candidate, name)
    except Exception:  # noqa: BLE001  a plugin's property: `why_unreadable` tells what it raised
        return True


def why_unreadable(candidate: object) -> str | None:
    """Say which attribute of the contract can't be read, as a clause, or None where all that are there can."""
    for name in MEMBERS:
        try:
            getattr(candidate, name)
        except AttributeError as error:
            # A property that raises it by mistake would count as absent, and nobody would learn of it.
            if isinstance(inspect.getattr_static(candidate, name, None), (property, cached_property)):
                return f"has a property {name!r} that raised {raised(error)}"
        except Exception as error:  # noqa: BLE001  a plugin's property
            return f"has a property {name!r} that raised {raised(error)}"
    return None


def why_not_called_with(method: object, arguments: Collection[str]) -> str | None:
    """Say why something can't be called with arguments by position, or None where it can, as far as that is known."""
    if not callable(method):
        return "it can't be called"
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError as error:
        return str(error)
    except ValueError:  # no signature is known, as for some callables written in C
        return None
    return None


def missing_members(candidate: object) -> str | None:
    """Say which of the required attributes an object lacks, as a clause, or None."""
    missing = [name for name in REQUIRED if not has_member(candidate, name)]
    if not missing:
        return None
    slips = {member: own for own, member in near_members(candidate) if member in missing}
    told = [f"{name!r}" + (f" (it has {slips[name]!r})" if name in slips else "") for name in missing]
    return f"has no attribute {' and no '.join(told)}"


def warn_of_slips(backend: object, whose: str) -> None:
    """Warn of public attributes whose name is nearly one of the contract's, which the framework doesn't find."""
    for own, member in near_members(backend):
        warnings.warn(
            f"{whose} has an attribute {own!r}, which means nothing to Graphwright. Did you mean {member!r}? If not, "
            "begin the name with an underscore.",
            PluginWarning,
            stacklevel=2,
        )


def near_members(candidate: object) -> Iterator[tuple[str, str]]:
    """An object's public attributes that are nearly an attribute of the contract which it lacks, with that one."""
    absent = [name for name in MEMBERS if not has_member(candidate, name)]
    for own in _public_names(candidate):
        for member in difflib.get_close_matches(own, absent, n=1, cutoff=_NEAR):
            if _is_slip(candidate, own, member):
                yield own, member


def _public_names(candidate: object) -> list[str]:
    defined = [vars(kind) for kind in type(candidate).__mro__ if kind is not object]
    names = {name for namespace in (getattr(candidate, "__dict__", {}), *defined) for name in namespace}
    return sorted(name for name in names if not name.startswith("_") and name not in MEMBERS)


def _is_slip(candidate: object, own: str, member: str) -> bool:
    """Whether a near name means the member: `prepared`, `closed` and `models` are words of their own."""
    is_word_of_its_own = own in member or member in own or len(member) < 8
    return not is_word_of_its_own or _could_be(inspect.getattr_static(candidate, own, None), candidate, own, member)


def _could_be(static: object, candidate: object, own: str, member: str) -> bool:
    if isinstance(static, (property, cached_property)):  # reading it may do work
        return False
    value: Any = getattr(candidate, own, None)
    if member in METHODS:
        return callable(value) and why_not_called_with(value, METHODS[member]) is None
    if member == "modes":
        return isinstance(value, Mapping) and bool(value) and all(isinstance(v, Mapping) for v in value.values())
    kinds: Mapping[str, Any] = {
        "options_type": type,
        "api_version": tuple,
        "fallback_backend": str,
        "minimum_part_size": int,
        "name": str,
    }
    return member not in kinds or isinstance(value, kinds[member])
