"""The plugin contract of Graphwright.

A backend package needs only this: the `Backend` protocol, options, help around AOTAutograd, hook specifications, and
the conformance kit in `graphwright_plugins.testing`.
"""

from .aot import aot_compile, boxed, boxed_compiler, compile_context, core_decompositions, run_in_eager
from .aot_limits import beyond_aot
from .artifacts import ArtifactKind, ArtifactListener, listen_to_artifacts, show_artifact
from .entry_points import BACKEND_GROUP, DISABLED_VARIABLE, PLUGIN_GROUP, TORCH_BACKEND_GROUP
from .errors import (
    ApiVersionError,
    BackendContractError,
    BackendDisabled,
    BackendResourceError,
    BackendUnavailable,
    DuplicateBackend,
    HookError,
    LeftToEager,
    OptionError,
    OptionTypeError,
    PluginError,
    PluginLoadError,
    UnknownBackend,
    UnknownMode,
    UnknownOption,
    UnsupportedGraph,
)
from .loading import BackendInfo, list_backends, load_backend, refresh
from .markers import PROJECT_NAME, hookimpl, hookspec
from .options import NoOptions
from .plugins import Plugins, load_plugins
from .protocol import Backend, Capabilities, CompiledGraph, GraphCompiler, Tolerance, Unavailable
from .resolve import ResolvedBackend, as_torch_backend, lookup_backend, resolve_backend
from .version import API_VERSION

__all__ = [
    "API_VERSION",
    "BACKEND_GROUP",
    "DISABLED_VARIABLE",
    "PLUGIN_GROUP",
    "PROJECT_NAME",
    "TORCH_BACKEND_GROUP",
    "ApiVersionError",
    "ArtifactKind",
    "ArtifactListener",
    "Backend",
    "BackendContractError",
    "BackendDisabled",
    "BackendInfo",
    "BackendResourceError",
    "BackendUnavailable",
    "Capabilities",
    "CompiledGraph",
    "DuplicateBackend",
    "GraphCompiler",
    "HookError",
    "LeftToEager",
    "NoOptions",
    "OptionError",
    "OptionTypeError",
    "PluginError",
    "PluginLoadError",
    "Plugins",
    "ResolvedBackend",
    "Tolerance",
    "Unavailable",
    "UnknownBackend",
    "UnknownMode",
    "UnknownOption",
    "UnsupportedGraph",
    "aot_compile",
    "as_torch_backend",
    "beyond_aot",
    "boxed",
    "boxed_compiler",
    "compile_context",
    "core_decompositions",
    "hookimpl",
    "hookspec",
    "list_backends",
    "listen_to_artifacts",
    "load_backend",
    "load_plugins",
    "lookup_backend",
    "refresh",
    "resolve_backend",
    "run_in_eager",
    "show_artifact",
]
