"""Which of a backend's options a run of the kit was about, and which it says nothing of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from graphwright_plugins.errors import PluginError
from graphwright_plugins.protocol import HasModes
from graphwright_plugins.resolve import ResolvedBackend, resolve_backend

from .option_sets import DEFAULTS


@dataclass(frozen=True)
class TestedOptions:
    """What tests ran with."""

    __test__ = False  # pytest takes classes by their name

    tested: tuple[str, ...] = ()
    """The options, each set of them as what differs from the defaults; `"defaults"` where nothing does."""
    untested_modes: tuple[str, ...] = ()
    """The backend's modes that come to other options than these."""
    any: bool = False
    """Whether the backend takes options at all."""

    def __str__(self) -> str:
        if not self.tested:
            return ""
        if not self.any:
            return "The backend takes no options."
        told = f"Tested with the options: {'; '.join(self.tested)}."
        if self.untested_modes:
            modes = ", ".join(map(repr, self.untested_modes))
            told += f" Not tested: the mode{'s' if len(self.untested_modes) > 1 else ''} {modes}, and"
        else:
            told += " Not tested:"
        return f"{told} other values of options, but for `other_options` in a test or two; `option_sets` adds more."


def tested_options(used: Iterable[ResolvedBackend]) -> TestedOptions:
    """What tests were about that had the backend like this.

    Args:
        used: The backend with its options, for each test or for each that had other options.
    """
    by_words = {options_in_words(one.options): one for one in used}
    modes: dict[str, bool] = {}
    for one in by_words.values():
        for mode, options in _modes(one).items():
            modes[mode] = modes.get(mode, False) or any(options == other.options for other in by_words.values())
    return TestedOptions(
        tested=tuple(by_words),
        untested_modes=tuple(mode for mode, tested in modes.items() if not tested),
        any=any(_option_names(one.options) for one in by_words.values()),
    )


def options_in_words(options: Any) -> str:
    """Options as what differs from the defaults: `tile=8, weights='refit'`."""
    if isinstance(options, Mapping):
        different = dict(options)
    else:
        names, plain = _option_names(options), type(options)()
        values = {name: getattr(options, name) for name in names}
        different = {name: value for name, value in values.items() if value != getattr(plain, name)}
    return ", ".join(f"{name}={value!r}" for name, value in different.items()) or DEFAULTS


def _option_names(options: Any) -> list[str]:
    if isinstance(options, Mapping):
        return list(options)
    return [field.name for field in fields(options) if field.init] if is_dataclass(options) else []


def _modes(resolved: ResolvedBackend) -> dict[str, Any]:
    """The options that each of a backend's modes comes to, those left out that come to none."""
    modes: object = resolved.backend.modes if isinstance(resolved.backend, HasModes) else {}
    found: dict[str, Any] = {}
    for mode in modes if isinstance(modes, Mapping) else ():
        try:
            found[mode] = resolve_backend(resolved.backend, mode=mode).options
        except PluginError:  # `OptionTests.test_modes` tells
            continue
    return found
