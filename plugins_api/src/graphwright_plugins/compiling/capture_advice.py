"""What a backend advises capture to do with some functions, in its own captures only."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from graphwright_plugins.errors import BackendContractError, DeclarationError
from graphwright_plugins.naming import backend_in_words
from graphwright_plugins.options.asking import asked_with_options
from graphwright_plugins.protocol import Backend, HasCaptureAdvice


@dataclass(frozen=True)
class CaptureAdvice:
    """Functions that capture should treat in a way of their own for one backend.

    Functions are meant by identity: a wrapper of one is another function.

    Raises:
        DeclarationError: A field is no collection of functions, or the reason no text.
    """

    keep_whole: tuple[Callable[..., Any], ...] = ()
    """Functions whose calls go into the graph as they are, without a look inside: composites that the backend has a
    kernel for. Each must take and return only tensors, numbers, dtypes, devices and plain containers of these, and have
    no effect besides its result, as for `graphwright.allow_in_graph`."""
    leave_out: tuple[Callable[..., Any], ...] = ()
    """Functions that never become part of a graph, torch's own among them: the graph ends before the call, as for
    `graphwright.disable`. What a function of the program's calls in its turn may be captured by itself. Where the
    backend can run the rest of such a graph, `supports` costs less: the graph is cut, and goes on."""
    reason: str = ""
    """Why functions are left out, for the report of the graph break."""

    def __post_init__(self) -> None:
        for name in ("keep_whole", "leave_out"):
            given: object = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Collection):
                raise DeclarationError(f"CaptureAdvice has {name}={given!r}; it must be a tuple of functions")
            for function in given:
                if not callable(function):
                    raise DeclarationError(f"CaptureAdvice has {function!r} in {name}, which can't be called")
            object.__setattr__(self, name, tuple(given))
        if not isinstance(self.reason, str):
            raise DeclarationError(f"CaptureAdvice has reason={self.reason!r}; it must be a text")


def advice_of(backend: Backend, options: Any, told: str | None = None) -> CaptureAdvice | None:
    """A backend's advice under these options; None without any.

    Args:
        backend: The backend.
        options: Its options.
        told: The backend in words, for messages: `"backend 'name' of some-package 1.0"`.

    Raises:
        BackendContractError: What the backend gives is no `CaptureAdvice`, or its function raised.
    """
    if not isinstance(backend, HasCaptureAdvice):
        return None
    whose = told or backend_in_words(backend.name)
    advice = asked_with_options("capture_advice", backend.capture_advice, CaptureAdvice, options, whose)
    if not isinstance(advice, CaptureAdvice):
        raise BackendContractError(
            f"{whose} has a capture_advice of type {type(advice).__name__} instead of CaptureAdvice"
        )
    return advice
