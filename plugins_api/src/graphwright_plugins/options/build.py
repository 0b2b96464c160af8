"""Backend options: a frozen dataclass for each backend, checked before anything is compiled."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from graphwright_plugins.errors import BackendContractError, OptionError, OptionTypeError, UnknownMode, UnknownOption
from graphwright_plugins.naming import did_you_mean, listing, raised

from .option_types import describe, matches


@dataclass(frozen=True)
class NoOptions:
    """The options of a backend that takes none."""


def build_options(
    options_type: type[Any],
    options: Mapping[str, Any] | None,
    *,
    backend: str,
    mode: str | None = None,
    modes: Mapping[str, Mapping[str, Any]] | None = None,
) -> Any:
    """Make a backend's options from what the user wrote.

    Args:
        options_type: The backend's frozen dataclass.
        options: The user's option names and values; None means all defaults.
        backend: The backend's name, for messages.
        mode: The user's mode; `"default"` and None mean no mode.
        modes: The backend's modes.

    Returns:
        An instance of `options_type`.

    Raises:
        UnknownOption: A name that isn't a field of `options_type`.
        OptionTypeError: A value that doesn't fit its field.
        OptionError: `options` isn't a mapping, or the dataclass refused a value; one that it raises passes through.
        UnknownMode: A mode that isn't in `modes`.
        BackendContractError: `options_type` can't be used for options.
    """
    if isinstance(options, options_type) and mode in (None, "default"):
        return options
    annotations = option_annotations(options_type, backend=backend)
    values = {**_mode_values(mode, modes or {}, backend), **_user_values(options, backend)}
    for option, value in values.items():
        _check(option, value, annotations, backend)
    try:
        return options_type(**values)
    except OptionError:  # told by the dataclass in the contract's terms
        raise
    except (TypeError, ValueError) as error:
        raise OptionError(f"options of backend {backend!r} were refused: {error}", backend=backend) from error


def option_annotations(options_type: type[Any], *, backend: str) -> dict[str, Any]:
    """Option names with their annotations.

    Raises:
        BackendContractError: The class isn't a frozen dataclass whose fields all have defaults.
    """
    fault = why_not_options(options_type)
    if fault is not None:
        raise BackendContractError(f"options_type of backend {backend!r} {fault}")
    return _annotations(options_type)


def _annotations(options_type: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(options_type)
    return {field.name: hints[field.name] for field in dataclasses.fields(options_type) if field.init}


def why_not_options(options_type: object) -> str | None:
    """Say why a class can't serve as a backend's options, as a clause, or None when it can."""
    expected = "it must be a frozen dataclass whose fields all have defaults"
    if not (isinstance(options_type, type) and dataclasses.is_dataclass(options_type)):
        return f"is {options_type!r}, not a dataclass; {expected}"
    name = options_type.__qualname__
    if not options_type.__dataclass_params__.frozen:  # type: ignore[attr-defined]  # not in typeshed
        return f"is {name}, which isn't frozen; {expected}"
    try:
        annotations = _annotations(options_type)
    except Exception as error:  # noqa: BLE001  whatever evaluating a plugin's annotations raises
        return (
            f"is {name}, whose annotations can't be resolved ({raised(error)}); what they name must be importable in "
            f"the module {options_type.__module__} at run time"
        )
    for field in dataclasses.fields(options_type):
        if not field.init:
            continue
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            return f"is {name}, whose field {field.name!r} has no default; {expected}"
        fault = _why_not_default(field, annotations[field.name])
        if fault is not None:
            return f"is {name}, whose field {field.name!r} {fault}"
    return None


def _why_not_default(field: "dataclasses.Field[Any]", annotation: Any) -> str | None:
    try:
        value = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if matches(value, annotation):
            return None
    except BackendContractError as error:
        return f"can't be an option: {error}"
    except Exception as error:  # noqa: BLE001  a plugin's default_factory
        return f"has a default_factory that raised {raised(error)}"
    return f"has the default {value!r}, which isn't {describe(annotation)} as its annotation says"


def why_not_modes(modes: object, options_type: type[Any]) -> str | None:
    """Say why something can't serve as a backend's modes, as a clause, or None when it can."""
    if not isinstance(modes, Mapping):
        return f"has modes of type {type(modes).__name__}; it must be a mapping of names to options"
    annotations = _annotations(options_type)
    for mode, values in modes.items():
        if not isinstance(mode, str) or not isinstance(values, Mapping):
            return f"has a mode {mode!r}: {values!r}; modes are names, each with a mapping of options to values"
        for option, value in values.items():
            if option not in annotations:
                near = did_you_mean(option, annotations) if isinstance(option, str) else ""
                known = f"the options of {options_type.__qualname__} are: {listing(annotations)}"
                return f"has a mode {mode!r} that sets {option!r}, which is no option; {known}.{near}".rstrip(".")
            if not matches(value, annotations[option]):
                told = f"must be {describe(annotations[option])}"
                return f"has a mode {mode!r} that sets the option {option!r} to {value!r}; it {told}"
    return None


def _mode_values(mode: str | None, modes: Mapping[str, Mapping[str, Any]], backend: str) -> dict[str, Any]:
    if mode is None:
        return {}
    if mode in modes:
        return dict(modes[mode])
    if mode == "default":
        return {}
    raise UnknownMode(
        f"backend {backend!r} has no mode {mode!r}.{did_you_mean(mode, modes)} Its modes are: {listing(modes)}.",
        backend=backend,
        option="mode",
    )


def _user_values(options: object, backend: str) -> dict[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise OptionTypeError(
            f"options for backend {backend!r} must be a dict of option names and values, not {options!r}",
            backend=backend,
        )
    for name in options:
        if not isinstance(name, str):
            raise OptionTypeError(f"an option name for backend {backend!r} must be a string, not {name!r}")
    return dict(options)


def _check(option: str, value: object, annotations: Mapping[str, Any], backend: str) -> None:
    if option not in annotations:
        known = f"Its options are: {listing(annotations)}." if annotations else "It takes no options."
        raise UnknownOption(
            f"backend {backend!r} has no option {option!r}.{did_you_mean(option, annotations)} {known}",
            backend=backend,
            option=option,
        )
    if not matches(value, annotations[option]):
        raise OptionTypeError(
            f"option {option!r} of backend {backend!r} must be {describe(annotations[option])}, "
            f"not {value!r} ({type(value).__name__})",
            backend=backend,
            option=option,
        )
