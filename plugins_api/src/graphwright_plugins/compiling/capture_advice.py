"""What a backend advises capture to do with some functions, in its own captures only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphwright_plugins.errors import BackendContractError
from graphwright_plugins.protocol import Backend, HasCaptureAdvice


@dataclass(frozen=True)
class CaptureAdvice:
    """Functions that capture should treat in a way of their own for one backend.

    Functions are meant by identity: a wrapper of one is another function.
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


def advice_of(backend: Backend, options: Any) -> CaptureAdvice | None:
    """A backend's advice under these options; None without any.

    Raises:
        BackendContractError: What the backend gives is no `CaptureAdvice`, or names what can't be called.
    """
    if not isinstance(backend, HasCaptureAdvice):
        return None
    given = backend.capture_advice
    advice = given if isinstance(given, CaptureAdvice) or not callable(given) else given(options)
    if not isinstance(advice, CaptureAdvice):
        raise BackendContractError(
            f"backend {backend.name!r} has a capture_advice of type {type(advice).__name__} instead of CaptureAdvice"
        )
    for function in (*advice.keep_whole, *advice.leave_out):
        if not callable(function):
            raise BackendContractError(f"backend {backend.name!r} advises on {function!r}, which can't be called")
    return advice
