"""`graphwright.config`: the settings as a module whose attributes can be read, assigned and patched.

    graphwright.config.recompile_limit = 16
    with graphwright.config.patch(recompile_limit=64): ...
    del graphwright.config.recompile_limit      # back to its default

The settings themselves are one frozen dataclass (`graphwright.settings.Settings`), replaced as a whole, so that a
capture that took them at its start sees one consistent set.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from types import ModuleType
from typing import Any

from graphwright.exc import GraphwrightError
from graphwright.settings import Settings, settings_from_environment

_NAMES = tuple(field.name for field in fields(Settings))
_ALIASES = {"cache_size_limit": "recompile_limit", "accumulated_cache_size_limit": "accumulated_recompile_limit"}
"""Former names of torch.compile's settings, which programs still use."""

Listener = Callable[[Settings], object]


class UnknownSetting(GraphwrightError, AttributeError):
    """There is no setting of this name."""


class _Holder:
    """The settings in force, and who wants to know when they change."""

    def __init__(self, settings: Settings) -> None:
        self.initial = settings
        self.settings = settings
        self.listeners: tuple[Listener, ...] = ()
        self._lock = threading.RLock()

    def renew_lock(self) -> None:
        """Have a free lock, in a child process forked while another thread held it."""
        self._lock = threading.RLock()

    def change(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Put new values in force, all or none; returns the values they replace."""
        with self._lock:
            old = self.settings
            self._put_in_force(replace(old, **{_known(name): value for name, value in values.items()}), old)
            return {name: getattr(old, _known(name)) for name in values}

    def _put_in_force(self, new: Settings, old: Settings) -> None:
        self.settings = new
        try:
            for listener in self.listeners:
                listener(new)
        except Exception:  # a listener refused a value
            self.settings = old
            for listener in self.listeners:
                listener(old)
            raise


_holder = _Holder(settings_from_environment())
os.register_at_fork(after_in_child=_holder.renew_lock)


def _known(name: object) -> str:
    if isinstance(name, str) and (name in _NAMES or name in _ALIASES):
        return _ALIASES.get(name, name)
    near = difflib.get_close_matches(str(name), _NAMES, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else f" Settings are: {', '.join(_NAMES)}."
    raise UnknownSetting(f"graphwright.config has no setting {name!r}.{hint}")


def current() -> Settings:
    """The settings in force now."""
    return _holder.settings


def on_change(listener: Listener) -> Callable[[], None]:
    """Call `listener` with the settings, at once and after every change; a change that it raises on is taken back.

    Returns:
        A function that ends it.
    """

    def end() -> None:
        _holder.listeners = tuple(each for each in _holder.listeners if each is not listener)

    listener(_holder.settings)
    _holder.listeners = (*_holder.listeners, listener)
    return end


@contextlib.contextmanager
def _patched(values: dict[str, Any]) -> Iterator[None]:
    before = _holder.change(values)
    try:
        yield
    finally:
        _holder.change(before)


def patch(
    name: str | Mapping[str, Any] | None = None, value: Any = None, /, **values: Any
) -> contextlib._GeneratorContextManager[None]:
    """Change settings inside a `with` block, or, as a decorator, while the function runs.

    Args:
        name: One setting's name, followed by its value; or a mapping of names and values.
        value: The value of that setting.
        **values: Settings by name.

    Raises:
        UnknownSetting: There is no such setting; the message suggests the nearest.
        ValueError: A value that the setting cannot take.
    """
    given = {name: value} if isinstance(name, str) else dict(name or {})
    wanted = {**given, **values}
    for setting in wanted:
        _known(setting)
    return _patched(wanted)


class _ConfigModule(ModuleType):
    """Lets a module's attributes be the settings."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_holder.settings, _known(name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            _holder.change({_known(name): value})

    def __delattr__(self, name: str) -> None:
        _holder.change({name: getattr(_holder.initial, _known(name))})

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_NAMES})


sys.modules[__name__].__class__ = _ConfigModule
