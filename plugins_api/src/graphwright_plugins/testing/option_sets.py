"""Which options a backend is tested with: those that a class gives, and further sets of them, each with a name."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import pytest

SET_FIXTURE: Final = "_option_set"
"""The fixture that holds the name of an option set."""

DEFAULTS: Final = "defaults"
"""The name, among option sets, of what the kit is run with where there are none."""


class KitSettings:
    """What holds for all classes inside a class that inherits from this one, unless they say otherwise."""

    device: ClassVar[str] = "cpu"
    """Where the inputs live."""
    options: ClassVar[Mapping[str, Any] | None] = None
    """Options of the backend to test with."""
    option_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Further options to test with, by a name of your choice: each test runs for `options`, as `test_x[defaults]`, and
    for each of these added to them, as `test_x[name]`."""


def setting(node: Any, name: str) -> Any:
    """What the class of a test says of a setting, or else the nearest class around it; None where none does.

    Args:
        node: The test, as pytest's node.
        name: A name in `KitSettings`.
    """
    for one in reversed(node.listchain()):
        if isinstance(one, pytest.Class):
            for owner in one.obj.__mro__:
                if name in vars(owner) and owner is not KitSettings:
                    return vars(owner)[name]
    return None


def set_names(node: Any) -> list[str]:
    """The names of the option sets that a test is to run for; empty where there are none."""
    sets = setting(node, "option_sets") or {}
    return list(dict.fromkeys((DEFAULTS, *sets))) if sets else []


def options_in_set(node: Any, name: str | None) -> Mapping[str, Any] | None:
    """The options of one set, None for the test's own options alone."""
    options: Mapping[str, Any] | None = setting(node, "options")
    chosen = (setting(node, "option_sets") or {}).get(name)
    return options if chosen is None else {**(options or {}), **chosen}
