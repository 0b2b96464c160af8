"""Checking that an object is a backend, whether a plugin's entry point names it or a user passes it."""

from typing import Any

from graphwright_plugins.errors import (
    ApiVersionError,
    BackendContractError,
    BackendUnavailable,
    PluginError,
    tell_whose,
)
from graphwright_plugins.naming import raised
from graphwright_plugins.options.build import NoOptions, why_not_modes, why_not_options
from graphwright_plugins.protocol import Backend, Capabilities, HasApiVersion, HasAvailability, HasOptions, Unavailable
from graphwright_plugins.version import API_VERSION, why_not_compatible

from .entry_points import FoundPlugin
from .members import (
    ARTIFACT_METHODS,
    METHODS,
    has_member,
    missing_members,
    warn_of_slips,
    why_not_called_with,
    why_unreadable,
)


def options_type_of(backend: Backend) -> type[Any]:
    """The backend's options class, `NoOptions` where it names none."""
    return backend.options_type if isinstance(backend, HasOptions) else NoOptions


def api_version_of(backend: object) -> tuple[int, int]:
    """The contract version a plugin was written for."""
    return backend.api_version if isinstance(backend, HasApiVersion) else (1, 0)


def looks_like_backend(value: object) -> bool:
    """Whether something was meant as a backend object, or is the class of one, complete or not.

    What can be called is taken for a plain `(gm, example_inputs)` callable, unless it has capabilities.
    """
    if callable(value) and not isinstance(value, type):
        return has_member(value, "capabilities")
    return not isinstance(value, str) and (has_member(value, "compile") or has_member(value, "capabilities"))


def why_not_backend(candidate: object) -> str | None:
    """Say what keeps an object from being a backend, or None when it is one."""
    if isinstance(candidate, type):
        return f"is the class {candidate.__qualname__}; name an instance of it"
    fault = why_unreadable(candidate) or missing_members(candidate)
    if fault is not None:
        return fault
    if not isinstance(candidate, Backend):
        return "isn't a graphwright_plugins.Backend"
    return _why_not_core(candidate.name, candidate.capabilities, candidate.compile) or _why_not_extensions(candidate)


def _why_not_core(name: object, capabilities: object, compile_graph: object) -> str | None:
    if not isinstance(name, str) or not name:
        return f"has the name {name!r}, which isn't a non-empty string"
    if not isinstance(capabilities, Capabilities):
        return f"has capabilities of type {type(capabilities).__name__} instead of Capabilities"
    if not callable(compile_graph):
        return "has a compile attribute that can't be called"
    return _why_not_method("compile", compile_graph)


def _why_not_method(name: str, method: object) -> str | None:
    fault = why_not_called_with(method, METHODS[name])
    return fault and f"has a {name} method that doesn't take ({', '.join(METHODS[name])}): {fault}"


def _why_not_extensions(backend: Backend) -> str | None:
    options_type: object = options_type_of(backend)
    fault = why_not_options(options_type)
    if fault is not None:
        return f"has an options_type that {fault}"
    fault = _why_not_artifacts(backend)
    if fault is not None:
        return fault
    for name in METHODS:
        if name in ARTIFACT_METHODS or not hasattr(backend, name):
            continue
        method = getattr(backend, name)
        fault = _why_not_method(name, method) if callable(method) else f"has an attribute {name!r} that can't be called"
        if fault is not None:
            return fault
    return _why_not_values(backend, options_type_of(backend))


def _why_not_artifacts(backend: Backend) -> str | None:
    if not hasattr(backend, "cache_key_parts"):
        return None
    missing = [name for name in ARTIFACT_METHODS if not callable(getattr(backend, name, None))]
    if missing:
        return f"has 'cache_key_parts' and no method {' and no '.join(map(repr, missing))}"
    return next(filter(None, (_why_not_method(name, getattr(backend, name)) for name in ARTIFACT_METHODS)), None)


def _why_not_values(backend: Backend, options_type: type[Any]) -> str | None:
    fault = why_not_modes(getattr(backend, "modes", {}), options_type)
    if fault is not None:
        return fault
    least: object = getattr(backend, "minimum_part_size", 1)
    if isinstance(least, bool) or not isinstance(least, int) or least < 1:
        return f"has minimum_part_size={least!r}; it must be a whole number of at least 1"
    fallback: object = getattr(backend, "fallback_backend", "eager")
    if not isinstance(fallback, str) or not fallback:
        return f"has fallback_backend={fallback!r}; it must be the name of a backend, such as 'eager'"
    return None


def check_backend(candidate: object, found: FoundPlugin) -> Backend:
    """Check what an entry point named against the contract.

    Raises:
        ApiVersionError: It was written for another version of the contract.
        BackendContractError: It isn't a backend, or bears another name than its entry point.
    """
    check_api_version(candidate, found)
    fault = why_not_backend(candidate)
    if fault is None and isinstance(candidate, Backend):
        if candidate.name == found.name:
            warn_of_slips(candidate, f"backend {found.name!r} of {found.owner} ({found.target})")
            return candidate
        fault = f"calls itself {candidate.name!r}; both names must be the same"
    raise BackendContractError(
        f"backend {found.name!r} of {found.owner} ({found.target}) {fault}. Report it to {found.authors}."
    )


def check_backend_object(candidate: object) -> Backend:
    """Check an object that was passed as a backend, as what an entry point names is checked.

    Raises:
        ApiVersionError: It was written for another version of the contract.
        BackendContractError: It isn't a backend.
    """
    if isinstance(candidate, type):
        raise BackendContractError(f"the backend {why_not_backend(candidate)}.")
    name = _name_of(candidate)
    kind = f"{type(candidate).__module__}.{type(candidate).__qualname__}"
    whose = f"backend {name!r} (an object of {kind})" if name else f"the backend, an object of {kind},"
    fault = why_not_version(_stated_version(candidate))
    if fault is not None:
        raise ApiVersionError(f"{whose} {fault}.", plugin=name or "")
    fault = why_not_backend(candidate)
    if fault is not None or not isinstance(candidate, Backend):
        raise BackendContractError(f"{whose} {fault}. graphwright_plugins.Backend says what a backend must have.")
    warn_of_slips(candidate, whose)
    return candidate


def _name_of(candidate: object) -> str | None:
    try:
        name = getattr(candidate, "name", None)
    except Exception:  # noqa: BLE001  a plugin's property: `why_unreadable` tells what it raised
        return None
    return name if isinstance(name, str) and name else None


def check_api_version(candidate: object, found: FoundPlugin) -> None:
    """Check the contract version that a plugin object states.

    Raises:
        ApiVersionError: The version isn't a pair of ints, or is one that this contract doesn't accept.
    """
    fault = why_not_version(_stated_version(candidate))
    if fault is not None:
        raise ApiVersionError(
            f"plugin {found.name!r} of {found.owner} {fault}.",
            plugin=found.name,
            distribution=found.distribution,
            version=found.version,
        )


def _stated_version(candidate: object) -> object:
    try:
        return api_version_of(candidate)
    except Exception:  # noqa: BLE001  a plugin's property: `why_unreadable` tells what it raised
        return 1, 0


def why_not_version(stated: object) -> str | None:
    """Say what is wrong with the contract version that a plugin states, as a clause, or None."""
    if not (isinstance(stated, tuple) and len(stated) == 2 and all(type(part) is int for part in stated)):
        return (
            f"states the plugin interface version {stated!r}, which isn't a pair of ints; "
            "it must be like api_version = (1, 0)"
        )
    remedy = why_not_compatible((stated[0], stated[1]))
    if remedy is None:
        return None
    ours, theirs = ".".join(map(str, API_VERSION)), ".".join(map(str, stated))
    return f"was written for plugin interface {theirs}, and {ours} is installed: {remedy}"


def check_available(backend: Backend, whose: str) -> None:
    """Check that a backend can work here.

    Args:
        backend: The backend.
        whose: It in words, for messages: `"backend 'name' of some-package 1.0"`.

    Raises:
        BackendUnavailable: It can't.
        BackendContractError: Its `available` answers otherwise than the contract says, or raised.
    """
    if not isinstance(backend, HasAvailability):
        return
    expected = "it must return None where the backend can work, and else Unavailable(reason, remedy)"
    try:
        answer: object = backend.available()
    except PluginError as error:
        tell_whose(error, f"available() of {whose}")
        raise
    except Exception as error:
        raise BackendContractError(
            f"available() of {whose} raised {raised(error)}; {expected}. Report it to the backend's authors."
        ) from error
    if answer is None:
        return
    if not isinstance(answer, Unavailable):
        raise BackendContractError(
            f"available() of {whose} returned {answer!r}; {expected}. Report it to the backend's authors."
        )
    raise BackendUnavailable(
        f"{whose} can't work here: {answer.reason}. {answer.remedy}",
        name=backend.name,
        reason=answer.reason,
        remedy=answer.remedy,
    )
