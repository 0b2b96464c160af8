"""From what a user wrote as backend, options and mode to something that compiles graphs."""

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from types import MethodType
from typing import Any, Final

from torch import fx

from graphwright_plugins.aot.grad_mode import gradients_on_around
from graphwright_plugins.artifacts.cache import OwnedBackend
from graphwright_plugins.compiling.capture_advice import CaptureAdvice, advice_of
from graphwright_plugins.compiling.closing import note_use
from graphwright_plugins.compiling.form_job import FormJob
from graphwright_plugins.compiling.graph_compiler import EAGER, Fallback, GraphJob, OnBackendError
from graphwright_plugins.compiling.preparing import prepare
from graphwright_plugins.form.graph_form import form_of
from graphwright_plugins.loading.contract import (
    check_available,
    check_backend_object,
    looks_like_backend,
    options_type_of,
)
from graphwright_plugins.loading.registry import BackendRegistry, LoadedBackend, default_registry
from graphwright_plugins.loading.torch_backends import CallableBackend, callable_name, callable_options, torch_backend
from graphwright_plugins.options.build import build_options
from graphwright_plugins.partition.decide import PartitionPlan

from .errors import LeftToEager, PluginError, UnknownBackend, tell_whose
from .naming import backend_in_words
from .protocol import Backend, Capabilities, CompiledGraph, GraphCompiler, HasModes
from .report import collecting
from .supports import HasFallback


@dataclass(frozen=True)
class ResolvedBackend:
    """A backend with its options, ready to compile. Equal when backend and options are."""

    name: str
    """The backend's name."""
    distribution: str | None
    """The distribution it came from; None for a callable or object passed directly."""
    version: str | None
    """That distribution's version."""
    options: Any
    """The validated options, in the form the backend takes them."""
    backend: Backend
    """The backend itself."""
    fallback: "ResolvedBackend | None" = None
    """What runs what the backend doesn't; None for the one that the backend names, or `eager`."""
    on_error: OnBackendError = "raise"
    """What to do where the backend fails on a graph, or on a part of one."""

    @property
    def capabilities(self) -> Capabilities:
        """What the backend can do."""
        return self.backend.capabilities

    @property
    def key(self) -> Hashable:
        """A hashable value that is equal exactly for the same backend with equal options."""
        target = self.backend.function if isinstance(self.backend, CallableBackend) else self.backend
        # A bound method is a new object each time it is read, and equal to the last one.
        identity = target if isinstance(target, MethodType) else _Identity(target)
        fallback = self.fallback.key if self.fallback is not None else None
        return (self.name, identity, freeze(self.options), fallback, self.on_error)

    @property
    def takes_real_inputs(self) -> bool:
        """Whether the backend is a plain `(gm, example_inputs)` callable, which `torch.compile` gives real tensors.

        One whose graphs are brought into another form than the captured one gets fakes.
        """
        return isinstance(self.backend, CallableBackend) and self.backend.graph_form.is_as_captured

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> CompiledGraph:
        """Compile one graph, or load it from the artifact store; see `Backend.compile`.

        The graph is brought into the form that the backend wants; see `GraphForm`. Where gradients are on anywhere in
        it, they are on at its beginning and end. One that gradients flow through goes to the fallback, if the backend
        does inference only. Where the backend has `supports` or `partition`, what it doesn't do runs on the fallback.
        What the backend raises passes through, unless the fallback is to run then. `graphwright_plugins.collecting`
        gives the report.

        Raises:
            BackendContractError: The backend returned something that can't be called.
        """
        note_use(self.backend)
        self.prepare()
        with gradients_on_around(graph) as (own, around):
            compiled = FormJob(self._job(), form_of(self.backend, self.options)).compile(own, example_inputs)
        return compiled if around is None else around.around(compiled)

    def prepare(self) -> None:
        """Let the backend get ready, unless it has already done so for these options; see `HasPrepare`.

        Raises:
            PluginError: It can't, or has a form of graphs or advice for capture that is none.
        """
        told = self._in_words
        form_of(self.backend, self.options, told)
        advice_of(self.backend, self.options, told)
        prepare(self.backend, self.options, freeze(self.options), told)

    @property
    def _in_words(self) -> str:
        return backend_in_words(self.name, self.distribution, self.version)

    @property
    def capture_advice(self) -> CaptureAdvice | None:
        """How the backend wants some functions captured; None where it has no such wish."""
        return advice_of(self.backend, self.options)

    def plans(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> tuple[PartitionPlan, ...]:
        """How a graph would be cut between the backend and the fallback, which compile nothing.

        Returns:
            One plan; or one for each graph that the form gives which the backend wants, as far as they are made now.

        Raises:
            LeftToEager: The graph can't be brought into the form as eager does it.
            UnsupportedGraph: The graph has no such form.
        """
        with gradients_on_around(graph) as (own, _):
            return FormJob(self._job(), form_of(self.backend, self.options)).plans(own, example_inputs)

    def _job(self) -> GraphJob:
        owned = OwnedBackend(self.backend, self.options, self.distribution, self.version)
        return GraphJob(owned, self.on_error, self._find_fallback)

    def _find_fallback(self) -> Fallback:
        found = self.fallback
        if found is None:
            name = self.backend.fallback_backend if isinstance(self.backend, HasFallback) else EAGER
            # What it doesn't do in its turn runs as it is, so that two can't send a graph to and fro.
            found = _GRAPH_ITSELF if name == EAGER else replace(self._named_fallback(name), fallback=_GRAPH_ITSELF)
        return Fallback(found.name, found.compile)

    def _named_fallback(self, name: str) -> "ResolvedBackend":
        try:
            return resolve_backend(name)
        except PluginError as error:
            tell_whose(error, f"{self._in_words} names {name!r} as its fallback_backend, which can't be used")
            raise


class _Identity:
    """Wraps an object so that it compares and hashes by identity, and is kept alive by the key."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


def _graph_itself(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> CompiledGraph:
    forward: CompiledGraph = graph.forward
    return forward


_GRAPH_ITSELF: Final = ResolvedBackend(EAGER, None, None, None, CallableBackend(EAGER, _graph_itself))


def freeze(value: object) -> Hashable:
    """A hashable stand-in for an option value: equal values give equal stand-ins, unhashable leaves go by identity."""
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value), tuple((field.name, freeze(getattr(value, field.name))) for field in fields(value)))
    if isinstance(value, Mapping):
        return ("mapping", frozenset((freeze(key), freeze(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(map(freeze, value)))
    if isinstance(value, (set, frozenset)):
        return ("set", frozenset(map(freeze, value)))
    try:
        hash(value)
    except TypeError:
        return _Identity(value)
    # The type is part of it: True, 1 and 1.0 are equal and yet different options.
    return (type(value), value)


def resolve_backend(
    backend: str | Backend | GraphCompiler,
    options: Mapping[str, Any] | None = None,
    *,
    mode: str | None = None,
    registry: BackendRegistry | None = None,
    fallback: str | Backend | GraphCompiler | None = None,
    on_error: OnBackendError = "raise",
) -> ResolvedBackend:
    """Find a backend and check its options, before anything is compiled.

    A name is looked up among Graphwright's backends, then among those of torch.compile.

    Args:
        backend: A name, a `Backend` object, or a callable `(gm, example_inputs) -> callable`.
        options: Options of that backend by name.
        mode: One of the backend's modes.
        registry: Where names are looked up; the installed backends by default.
        fallback: What runs what the backend doesn't do; by default what the backend names, or `eager`.
        on_error: What to do where the backend fails on a graph, or on a part of one: raise, or run the fallback.

    Raises:
        UnknownBackend: Nobody offers the name.
        TypeError: `backend` or `fallback` is none of the three kinds.
        BackendContractError: A backend object lacks something, or has it otherwise than the contract says.
        ApiVersionError: A backend object was written for another version of the contract.
        ValueError: `fallback` is the backend itself, or `on_error` is neither of the two.
        OptionError: A wrong option or mode; its subclasses say which.
        BackendUnavailable: The backend can't work here.
        PluginError: The plugin can't be loaded; see `BackendRegistry.load`.
    """
    if on_error not in ("raise", "fallback"):
        raise ValueError(f"on_error must be 'raise' or 'fallback', not {on_error!r}")
    found = _resolve(backend, options, mode, registry or default_registry())
    if fallback is None:
        return replace(found, on_error=on_error)
    try:
        other = _resolve(fallback, None, None, registry or default_registry(), "fallback")
    except PluginError as error:
        tell_whose(error, f"the fallback that was asked for beside backend {found.name!r} can't be used")
        raise
    if other.backend is found.backend:
        raise ValueError(f"backend {found.name!r} can't be its own fallback; name another, such as {EAGER!r}")
    return replace(found, on_error=on_error, fallback=replace(other, fallback=_GRAPH_ITSELF))


def _resolve(
    backend: str | Backend | GraphCompiler,
    options: Mapping[str, Any] | None,
    mode: str | None,
    registry: BackendRegistry,
    argument: str = "backend",
) -> ResolvedBackend:
    if isinstance(backend, str):
        return _resolve_name(backend, options, mode, registry)
    if isinstance(backend, ResolvedBackend):
        raise TypeError(f"{argument} {backend.name!r} is resolved already; pass its name or object")
    if looks_like_backend(backend):
        return _with_options(check_backend_object(backend), None, None, options, mode)
    if not callable(backend):
        raise TypeError(
            f"{argument} must be a name, a Backend object or a callable (gm, example_inputs) -> callable, "
            f"not {backend!r}"
        )
    plain = CallableBackend(callable_name(backend), backend)
    return ResolvedBackend(plain.name, None, None, callable_options(plain, options, mode), plain)


def _resolve_name(
    name: str, options: Mapping[str, Any] | None, mode: str | None, registry: BackendRegistry
) -> ResolvedBackend:
    if name in registry:
        loaded: LoadedBackend = registry.load(name)
        return _with_options(loaded.backend, loaded.found.distribution, loaded.found.version, options, mode)
    if not name:
        raise UnknownBackend("a backend's name can't be empty", name=name)
    found, chosen = torch_backend(name, options, mode, registry.names)
    return ResolvedBackend(name, found.distribution, found.version, chosen, found)


def _with_options(
    backend: Backend,
    distribution: str | None,
    version: str | None,
    options: Mapping[str, Any] | None,
    mode: str | None,
) -> ResolvedBackend:
    modes = backend.modes if isinstance(backend, HasModes) else None
    values = build_options(options_type_of(backend), options, backend=backend.name, mode=mode, modes=modes)
    check_available(backend, backend_in_words(backend.name, distribution, version))
    return ResolvedBackend(backend.name, distribution, version, values, backend)


def lookup_backend(backend: str | Backend | GraphCompiler) -> GraphCompiler:
    """The `(gm, example_inputs) -> callable` behind a name, with default options.

    Raises:
        PluginError: See `resolve_backend`.
    """
    return resolve_backend(backend).compile


def as_torch_backend(
    backend: str | Backend, options: Mapping[str, Any] | None = None
) -> Callable[..., Callable[..., Any]]:
    """A backend in the form that `torch.compile(backend=…)` and its entry-point group take.

    Args:
        backend: A Graphwright backend, by name or itself.
        options: Its options. Those that torch.compile hands on (`options=`, `mode=`) win over these.

    Returns:
        A function `(gm, example_inputs, *, options=None, mode=None)`. The backend is looked up when a graph comes, so
        that a package may build the function at import for an entry point.
    """

    def compile_graph(
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        options: Mapping[str, Any] | None = None,
        mode: str | None = None,
    ) -> Callable[..., Any]:
        chosen = {**defaults, **(options or {})}
        with collecting() as collector:
            try:
                compiled = resolve_backend(backend, chosen, mode=mode).compile(gm, example_inputs)
            except LeftToEager as error:
                warnings.warn(f"a graph runs in eager: {error}", stacklevel=2)
                forward: Callable[..., Any] = gm.forward
                return forward
        for report in collector.reports:
            if report.failures or report.outcome == "fallback":
                warnings.warn(str(report), stacklevel=2)
        return compiled

    defaults = dict(options or {})
    compile_graph.__name__ = backend if isinstance(backend, str) else backend.name
    compile_graph.__qualname__ = compile_graph.__name__
    return compile_graph
