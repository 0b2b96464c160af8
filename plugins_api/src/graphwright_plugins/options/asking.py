"""Asks a backend for what it may give outright, or as a function of its options."""

from __future__ import annotations

from typing import Any

from graphwright_plugins.errors import BackendContractError, PluginError, tell_whose
from graphwright_plugins.naming import raised


def asked_with_options(member: str, given: Any, kind: type[Any], options: Any, whose: str) -> Any:
    """What a backend gives, whatever it is.

    Args:
        member: The attribute's name, for messages.
        given: The attribute's value.
        kind: What it is to be, or to give.
        options: The backend's options.
        whose: The backend in words, for messages.

    Raises:
        BackendContractError: The function raised what is no error of the contract's.
        PluginError: What it raised, with whose it is.
    """
    if isinstance(given, kind) or not callable(given):
        return given
    try:
        return given(options)
    except PluginError as error:
        tell_whose(error, f"{member}(options) of {whose}")
        raise
    except Exception as error:
        raise BackendContractError(
            f"{member}(options) of {whose} raised {raised(error)}. It must return a {kind.__name__}; report it to the "
            "backend's authors."
        ) from error
