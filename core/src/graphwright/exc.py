"""Every exception Graphwright raises, and the signals used while capturing.

Three families, told apart by their first line: our limit (`Unsupported`), the plugin's fault
(`BackendCompilerFailed`), our own bug (`InternalError`). The signals at the end never reach a user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphwright_plugins.report import kind_of

if TYPE_CHECKING:
    from graphwright.graph_breaks import GraphBreakKind


class GraphwrightError(Exception):
    """Base class of everything Graphwright raises on its own account."""


class CompileArgumentError(GraphwrightError, TypeError):
    """An argument of `graphwright.compile` has a type it cannot take."""


class CompileValueError(GraphwrightError, ValueError):
    """An argument of `graphwright.compile` has the right type and a value it cannot take."""


class DynamicSizeFixed(GraphwrightError, ValueError):
    """A size that is marked as dynamic is held to one value, or lies outside the range that was given."""


class Unsupported(GraphwrightError, RuntimeError):
    """Code met that cannot be captured, while `fullgraph=True` forbids to leave it to the interpreter.

    Attributes:
        gw_id: stable id of the kind of graph break, such as ``GW0012``.
        reason: what was met.
        location: ``file:line`` of the user's code.
        remedy: what to do about it.
    """

    def __init__(self, message: str, *, gw_id: str, reason: str, location: str, remedy: str) -> None:
        super().__init__(message)
        self.gw_id = gw_id
        self.reason = reason
        self.location = location
        self.remedy = remedy


class TorchRuntimeError(GraphwrightError, RuntimeError):
    """A torch operation failed on the shapes and dtypes of its inputs, under `fullgraph=True`."""


class RecompileLimitExceeded(Unsupported):
    """A code object was compiled as often as `recompile_limit` allows, and recompiling is asked to be an error."""


class BackendCompilerFailed(GraphwrightError, RuntimeError):
    """A backend raised while compiling a graph.

    Attributes:
        backend_name, distribution, version: whose backend it was.
        graph_name: the graph it was given.
        location: ``file:line`` where the function begins that the graph is of; empty where that is not known.
        kind: ``"unsupported"``, ``"resource"`` or ``"bug"``, by what it raised.
    """

    def __init__(
        self,
        backend_name: str,
        distribution: str,
        version: str,
        graph_name: str,
        cause: BaseException,
        location: str = "",
    ) -> None:
        self.backend_name = backend_name
        self.distribution = distribution
        self.version = version
        self.graph_name = graph_name
        self.location = location
        self.kind = kind_of(cause)
        origin = f" ({distribution} {version})".replace(" )", ")") if distribution else ""
        try:
            text = f"{type(cause).__name__}: {cause}"
        except Exception:  # noqa: BLE001  a plugin's exception may fail to print itself
            text = type(cause).__name__
        place = f" ({location})" if location else ""
        super().__init__(
            f"backend {backend_name!r}{origin} failed to compile {graph_name}{place}: {text}\n{_WHAT_TO_DO[self.kind]}"
        )


_WHAT_TO_DO = {
    "unsupported": "The backend does not support this graph. To run such graphs elsewhere, with a warning: "
    "graphwright.compile(..., on_backend_error='fallback').",
    "resource": "It ran out of something, or met a failure that may pass: trying again may work. To run such graphs "
    "elsewhere, with a warning: graphwright.compile(..., on_backend_error='fallback').",
    "bug": "To see whether the graph or the backend is at fault, run the same call with backend='eager'. If that "
    "works, it is a bug of the backend, to be reported to its authors.",
}


class InternalError(GraphwrightError, RuntimeError):
    """An invariant of Graphwright does not hold: our bug."""


# ------------------------------------------------------------------ signals


@dataclass(frozen=True, slots=True)
class CodeLocation:
    """A place in the user's code."""

    filename: str
    line: int
    function: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}"


class GraphBreak(Exception):
    """The translator met something that cannot go into the graph."""

    def __init__(self, kind: GraphBreakKind, detail: str, location: CodeLocation | None = None) -> None:
        super().__init__(f"{kind.gw_id}: {detail}")
        self.kind = kind
        self.detail = detail
        self.location = location
        self.user_stack: tuple[CodeLocation, ...] = ()
        self.frames: tuple[Any, ...] = ()
        """The translators of the frames it was met in, innermost first."""
        self.hooked = True
        """Whether Python functions that the eager part calls are to be captured in their own right."""
        self.step = -1
        """The step of the root frame that it was made at, for one that is raised later."""


class ObservedException(Exception):
    """The traced program raises a Python exception; `value` is the variable of the exception object."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


class NotConstant(Exception):
    """A variable has no value known at capture time."""


class NotProxyable(Exception):
    """A variable cannot stand in the graph."""


def drop_tracebacks(signal: GraphBreak) -> None:
    """Let go of the frames that a signal, which has been dealt with, and the signals it came from went through.

    A frame that keeps the signal in a variable is a cycle, and would keep the values of its call. At the end of the
    chain may stand what the program handles at the moment, which is left as it is.
    """
    pending: list[BaseException | None] = [signal]
    while pending:
        current = pending.pop()
        if isinstance(current, _SIGNALS) and current.__traceback__ is not None:
            current.__traceback__ = None
            pending += [current.__cause__, current.__context__]


_SIGNALS = (GraphBreak, ObservedException, NotConstant, NotProxyable)
"""What capture raises for itself alone; nothing of it comes to the program."""
