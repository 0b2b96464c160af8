"""How compiled functions behave for the time being: capture, run in eager, or run only what is cached."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

import graphwright._native as _native
import graphwright.torch_compat as torch_compat
from graphwright.exc import CompileValueError, GraphwrightError

_NATIVE: Final = {"default": 0, "force_eager": 1, "eager_on_recompile": 2, "fail_on_recompile": 0}


class RecompileForbidden(GraphwrightError, RuntimeError):
    """A call met no cached entry while the stance is `fail_on_recompile`."""

    def __init__(self, function: str, reason: str = "") -> None:
        because = f" ({reason})" if reason else ""
        super().__init__(
            f"{function} would have to be captured{because}, which the stance 'fail_on_recompile' forbids; call it "
            "with what it was captured for, or set another stance with graphwright.set_stance"
        )
        self.function = function
        self.reason = reason


class _Current:
    """The stance in force; like the native one it holds for the whole process."""

    name = "default"


def current_stance() -> str:
    """The stance in force."""
    return _Current.name


def _switch(name: str) -> str:
    before = _Current.name
    _Current.name = name
    _native.set_stance(_NATIVE[name])
    return before


class set_stance:  # a function to its callers, as torch.compiler.set_stance is
    """Set how compiled functions behave from now on, or only inside a `with` block or a decorated function.

    Stances:

    * `"default"`: capture what is not cached yet.
    * `"force_eager"`: run the original functions.
    * `"eager_on_recompile"`: run what is cached; where that does not fit, the original.
    * `"fail_on_recompile"`: run what is cached; where that does not fit, raise `RecompileForbidden`.

    The stance holds for all threads.

    Args:
        stance: One of the names above.

    Raises:
        CompileValueError: There is no such stance.
    """

    def __init__(self, stance: str = "default") -> None:
        if stance not in _NATIVE:
            near = difflib.get_close_matches(str(stance), _NATIVE, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise CompileValueError(
                f"graphwright.set_stance: no stance is called {stance!r}.{hint} Stances are: {', '.join(_NATIVE)}."
            )
        self.stance = stance
        self._before = _switch(stance)

    def __enter__(self) -> None:
        _switch(self.stance)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        _switch(self._before)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function: the stance holds while it runs, and no longer from here on."""
        _switch(self._before)

        @functools.wraps(func)
        def inner(*args: Any, **kwargs: Any) -> Any:
            before = _switch(self.stance)
            try:
                return func(*args, **kwargs)
            finally:
                _switch(before)

        return inner


def allows_capture(function_name: str, reason: str = "") -> bool:
    """Whether a call that no cached entry fits may be captured, by Graphwright's stance and by torch's.

    Args:
        function_name: For the message.
        reason: Why nothing cached fits, for the message.

    Raises:
        RecompileForbidden: The stance is `fail_on_recompile`.
    """
    if _Current.name == "fail_on_recompile":
        raise RecompileForbidden(function_name, reason)
    return torch_compat.torch_stance() not in ("force_eager", "eager_on_recompile")
