"""Checking that an object a plugin offers is a backend."""

import inspect
from typing import Any

from graphwright_plugins.errors import ApiVersionError, BackendContractError
from graphwright_plugins.options.build import NoOptions, why_not_options
from graphwright_plugins.protocol import Backend, Capabilities, HasApiVersion, HasOptions
from graphwright_plugins.version import API_VERSION, why_not_compatible

from .entry_points import FoundPlugin


def options_type_of(backend: Backend) -> type[Any]:
    """The backend's options class, `NoOptions` where it names none."""
    return backend.options_type if isinstance(backend, HasOptions) else NoOptions


def api_version_of(backend: object) -> tuple[int, int]:
    """The contract version a plugin was written for."""
    return backend.api_version if isinstance(backend, HasApiVersion) else (1, 0)


def why_not_backend(candidate: object) -> str | None:
    """Say what keeps an object from being a backend, or None when it is one."""
    if isinstance(candidate, type):
        return f"is the class {candidate.__qualname__}; name an instance of it"
    missing = [name for name in ("name", "capabilities", "compile") if not hasattr(candidate, name)]
    if missing:
        return f"has no attribute {' and no '.join(map(repr, missing))}"
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
    try:
        inspect.signature(compile_graph).bind("graph", "example_inputs", "options")
    except TypeError as error:
        return f"has a compile method that doesn't take (graph, example_inputs, options): {error}"
    except ValueError:  # no signature is known, as for some callables written in C
        return None
    return None


def _why_not_extensions(backend: Backend) -> str | None:
    fault = why_not_options(options_type_of(backend))
    if fault is not None:
        return f"has an options_type that {fault}"
    for name in ("available", "close"):
        if not callable(getattr(backend, name, callable)):
            return f"has an attribute {name!r} that can't be called"
    return _why_not_artifacts(backend)


def _why_not_artifacts(backend: Backend) -> str | None:
    if not hasattr(backend, "cache_key_parts"):
        return None
    missing = [name for name in ("cache_key_parts", "save", "load", "compatible") if not _is_method(backend, name)]
    return f"has 'cache_key_parts' and no method {' and no '.join(map(repr, missing))}" if missing else None


def _is_method(backend: Backend, name: str) -> bool:
    return callable(getattr(backend, name, None))


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
            return candidate
        fault = f"calls itself {candidate.name!r}; both names must be the same"
    raise BackendContractError(f"backend {found.name!r} of {found.owner} ({found.target}) {fault}. Report it there.")


def check_api_version(candidate: object, found: FoundPlugin) -> None:
    """Check the contract version that a plugin object states.

    Raises:
        ApiVersionError: The version isn't a pair of ints, or is one that this contract doesn't accept.
    """
    stated: object = api_version_of(candidate)
    if not (isinstance(stated, tuple) and len(stated) == 2 and all(isinstance(part, int) for part in stated)):
        raise _version_error(found, f"states the plugin interface version {stated!r}, which isn't a pair of ints")
    remedy = why_not_compatible((stated[0], stated[1]))
    if remedy is not None:
        ours = ".".join(map(str, API_VERSION))
        theirs = ".".join(map(str, stated))
        raise _version_error(found, f"was written for plugin interface {theirs}, and {ours} is installed: {remedy}")


def _version_error(found: FoundPlugin, fault: str) -> ApiVersionError:
    return ApiVersionError(
        f"plugin {found.name!r} of {found.owner} {fault}.",
        plugin=found.name,
        distribution=found.distribution,
        version=found.version,
    )
