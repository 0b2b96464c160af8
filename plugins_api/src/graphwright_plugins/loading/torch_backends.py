"""Any backend of torch.compile, or any plain callable, as a Graphwright backend."""

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins.artifacts.size_assumptions import has_hidden_sizes
from graphwright_plugins.errors import BackendContractError, OptionError, UnknownOption
from graphwright_plugins.form.graph_form import GraphForm
from graphwright_plugins.naming import did_you_mean
from graphwright_plugins.protocol import Capabilities, CompiledGraph, GraphCompiler
from graphwright_plugins.torch_compat import (
    TORCH_VERSION,
    graph_caches_off,
    inductor_backend,
    inductor_option_names,
    is_builtin_torch_backend,
    list_torch_backends,
    lookup_torch_backend,
    no_tracing_context,
)

from .entry_points import import_plugin
from .known_torch_backends import KNOWN_TORCH_BACKENDS, UNKNOWN
from .registry import duplicate_backend, torch_entry_points, unknown_backend


@dataclass(frozen=True)
class CallableBackend:
    """A `(gm, example_inputs)` callable that satisfies the `Backend` protocol.

    Where nothing is known of what it can do, its capabilities are those of eager.
    """

    name: str
    """The callable's name."""
    function: GraphCompiler
    """The callable."""
    distribution: str | None = None
    """The distribution it came from, where it was found by name."""
    version: str | None = None
    """That distribution's version."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    """What it is taken to be able to do."""
    graph_form: GraphForm = field(default_factory=GraphForm)
    """The form in which it gets its graphs."""
    traces_alone: bool = False
    """Whether it is called outside of the tracing context."""
    reuses_results: bool = False
    """Whether what it compiled returns tensors that its next call writes to."""

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: Any) -> CompiledGraph:
        """Call the callable as torch.compile would, with `mode` and `options` as keywords where given."""
        keywords = {} if options is None else options.keywords()
        with contextlib.ExitStack() as around:
            if has_hidden_sizes(example_inputs):
                around.enter_context(graph_caches_off())
            if self.traces_alone:
                around.enter_context(no_tracing_context())
            compiled: CompiledGraph = self.function(graph, list(example_inputs), **keywords)
        return _with_own_results(compiled) if self.reuses_results else compiled


@dataclass(frozen=True)
class CallableOptions:
    """What torch.compile would pass to a backend by keyword."""

    mode: str | None = None
    """The mode, where given."""
    options: Mapping[str, Any] | None = None
    """The options, where given."""

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments; those not given are left out, as torch.compile does."""
        keywords: dict[str, Any] = {}
        if self.mode is not None:
            keywords["mode"] = self.mode
        if self.options:
            keywords["options"] = dict(self.options)
        return keywords


def callable_name(function: Callable[..., Any]) -> str:
    """The name by which messages and events call a callable backend."""
    name = getattr(function, "compiler_name", None) or getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else type(function).__qualname__


def callable_options(
    backend: CallableBackend, options: Mapping[str, Any] | None, mode: str | None
) -> CallableOptions | None:
    """Options for a callable, refused now where it can't take them.

    Raises:
        UnknownOption: The callable has no keyword `options` or `mode`.
        BackendContractError: The callable can't be called with a graph and its inputs.
    """
    chosen = CallableOptions(None if mode == "default" else mode, dict(options) if options else None)
    keywords = chosen.keywords()
    try:
        signature = inspect.signature(backend.function)
    except (TypeError, ValueError):  # no signature is known, as for some callables written in C
        return chosen if keywords else None
    try:
        signature.bind("gm", "example_inputs")
    except TypeError as error:
        raise BackendContractError(
            f"backend {backend.name!r} can't be called with (gm, example_inputs): {error}"
        ) from error
    for keyword in keywords:
        _check_keyword(signature, keyword, backend)
    return chosen if keywords else None


def _check_keyword(signature: inspect.Signature, keyword: str, backend: CallableBackend) -> None:
    try:
        signature.bind("gm", "example_inputs", **{keyword: None})
    except TypeError as error:
        raise UnknownOption(
            f"backend {backend.name!r} takes no {keyword}: its callable has no keyword argument {keyword!r}",
            backend=backend.name,
            option=keyword,
        ) from error


def torch_backend(
    name: str, options: Mapping[str, Any] | None, mode: str | None, known: Sequence[str]
) -> tuple[CallableBackend, CallableOptions | None]:
    """The backend behind one of torch.compile's names, with its options checked as far as it lets us.

    Args:
        name: The name.
        options: The user's options.
        mode: The user's mode.
        known: Graphwright's own names, for the error message.

    Raises:
        UnknownBackend: Neither torch nor an entry point has the name.
        DuplicateBackend: Both have it, or two entry points.
        PluginLoadError: The entry point can't be imported.
        OptionError: The options are wrong.
    """
    if name == "inductor":
        return INDUCTOR, _inductor_options(options, mode)
    backend = _entry_point_backend(name) or _registered_backend(name, known)
    return backend, callable_options(backend, options, mode)


def _entry_point_backend(name: str) -> CallableBackend | None:
    registry = torch_entry_points()
    if name not in registry:
        return None
    found = registry.find(name)
    if is_builtin_torch_backend(name):
        raise duplicate_backend(name, [found.owner, f"torch {TORCH_VERSION} itself"])
    return _known(name, import_plugin(found), found.distribution, found.version)


def _registered_backend(name: str, known: Sequence[str]) -> CallableBackend:
    names = list_torch_backends()
    if name not in names:
        raise unknown_backend(name, {*known, *names})
    function = lookup_torch_backend(name)
    if is_builtin_torch_backend(name):
        return CallableBackend(name, function, "torch", TORCH_VERSION)
    return _known(name, function, None, None)  # registered by the user's program at run time


def _known(name: str, function: GraphCompiler, distribution: str | None, version: str | None) -> CallableBackend:
    nature = KNOWN_TORCH_BACKENDS.get(name, UNKNOWN)
    return CallableBackend(
        name,
        function,
        distribution,
        version,
        nature.capabilities,
        nature.graph_form,
        traces_alone=nature.traces_alone,
        reuses_results=nature.reuses_results,
    )


def _with_own_results(function: CompiledGraph) -> CompiledGraph:
    """The function, returning copies of its tensors."""

    def call(*inputs: Any) -> Sequence[Any]:
        return tuple(result.clone() if isinstance(result, torch.Tensor) else result for result in function(*inputs))

    return call


def _compile_with_inductor(graph: fx.GraphModule, example_inputs: Sequence[Any], **keywords: Any) -> CompiledGraph:
    options = dict(keywords.get("options") or {})
    if has_hidden_sizes(example_inputs):
        options["fx_graph_cache"] = False  # for the backward graph too, which is compiled later
    compiled: CompiledGraph = inductor_backend(keywords.get("mode"), options)(graph, example_inputs)
    return compiled


INDUCTOR: Final = CallableBackend("inductor", _compile_with_inductor, "torch", TORCH_VERSION)
"""Torch's own Inductor. One object, as torch.compile builds a new one for each set of options."""


def _inductor_options(options: Mapping[str, Any] | None, mode: str | None) -> CallableOptions | None:
    names = inductor_option_names() if options else []
    for option in options or {}:
        if option.replace("-", "_") not in names:
            raise UnknownOption(
                f"backend 'inductor' has no option {option!r}.{did_you_mean(option, names)}",
                backend="inductor",
                option=option,
            )
    try:
        inductor_backend(mode, options)
    except RuntimeError as error:  # what torch raises for an unknown mode and an ill-typed option
        raise OptionError(f"options of backend 'inductor' were refused: {error}", backend="inductor") from error
    return callable_options(INDUCTOR, options, mode)
