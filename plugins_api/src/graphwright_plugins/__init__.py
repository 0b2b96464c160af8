"""The plugin contract of Graphwright.

A backend package needs only this: the `Backend` protocol, options, help around AOTAutograd, hook specifications, and
the conformance kit in `graphwright_plugins.testing`.
"""

from .aot.compile import aot_compile, boxed, boxed_compiler, compile_context, core_decompositions, run_in_eager
from .aot.limits import beyond_aot
from .artifacts.cache import artifacts_wanted
from .compiling.capture_advice import CaptureAdvice
from .compiling.closing import close_backends
from .compiling.graph_compiler import OnBackendError
from .errors import (
    ApiVersionError,
    BackendContractError,
    BackendDisabled,
    BackendResourceError,
    BackendUnavailable,
    DeclarationError,
    DuplicateBackend,
    HookError,
    LeftToEager,
    ManifestError,
    NotCacheable,
    OptionError,
    OptionTypeError,
    PluginError,
    PluginLoadError,
    PluginWarning,
    PrepareFailed,
    UnknownBackend,
    UnknownMode,
    UnknownOption,
    UnsupportedGraph,
)
from .fake import constants_of, device_of, real_examples, symbols_of
from .form.graph_form import GraphForm
from .form.weights import OfferedValues, WeightsChange, listen_to_weights, offering
from .graphs.hashing import UnstableGraph, graph_hash
from .graphs.symbols import SymbolicNumber
from .loading.entry_points import BACKEND_GROUP, DISABLED_VARIABLE, PLUGIN_GROUP, TORCH_BACKEND_GROUP
from .loading.manifest import BackendManifest
from .loading.manifest_file import MANIFEST_NAME
from .loading.plugins import Plugins, load_plugins
from .loading.registry import BackendInfo, list_backends, load_backend, refresh
from .markers import PROJECT_NAME, hookimpl, hookspec
from .options.build import NoOptions
from .partition.decide import PartitionPlan, PlannedPart
from .protocol import (
    Backend,
    Capabilities,
    CompiledGraph,
    GraphCompiler,
    HasApiVersion,
    HasArtifacts,
    HasAvailability,
    HasCaptureAdvice,
    HasClose,
    HasGraphForm,
    HasModes,
    HasOptions,
    HasPrepare,
    HasRefit,
    Tolerance,
    Unavailable,
)
from .replay.saved_graph import load_graph, save_graph
from .replay.saved_values import NotSavable
from .report import BackendFailure, GraphReport, PartReport, collecting, timed_stage
from .resolve import ResolvedBackend, as_torch_backend, lookup_backend, resolve_backend
from .runtime import RuntimeContext, runtime_of
from .shown_artifacts import ArtifactKind, ArtifactListener, listen_to_artifacts, show_artifact
from .signature import (
    Extent,
    GraphKind,
    GraphSignature,
    InputKind,
    InputSignature,
    OutputSignature,
    TensorSpec,
    shared_of,
    signature_of,
)
from .store.artifact_store import Artifact, ArtifactMeta, ArtifactStore, DamagedArtifact, UnusableStore
from .store.outcomes import CacheOutcome, listen_to_cache
from .store.settings import (
    ArtifactSettings,
    artifact_settings_from_environment,
    current_artifact_settings,
    using_artifact_settings,
)
from .supports import HasFallback, HasMinimumPart, HasPartitioner, HasSupports, Refusal, Unsupported
from .version import API_VERSION

__all__ = [
    "API_VERSION",
    "BACKEND_GROUP",
    "DISABLED_VARIABLE",
    "MANIFEST_NAME",
    "PLUGIN_GROUP",
    "PROJECT_NAME",
    "TORCH_BACKEND_GROUP",
    "ApiVersionError",
    "Artifact",
    "ArtifactKind",
    "ArtifactListener",
    "ArtifactMeta",
    "ArtifactSettings",
    "ArtifactStore",
    "Backend",
    "BackendContractError",
    "BackendDisabled",
    "BackendFailure",
    "BackendInfo",
    "BackendManifest",
    "BackendResourceError",
    "BackendUnavailable",
    "CacheOutcome",
    "Capabilities",
    "CaptureAdvice",
    "CompiledGraph",
    "DamagedArtifact",
    "DeclarationError",
    "DuplicateBackend",
    "Extent",
    "GraphCompiler",
    "GraphForm",
    "GraphKind",
    "GraphReport",
    "GraphSignature",
    "HasApiVersion",
    "HasArtifacts",
    "HasAvailability",
    "HasCaptureAdvice",
    "HasClose",
    "HasFallback",
    "HasGraphForm",
    "HasMinimumPart",
    "HasModes",
    "HasOptions",
    "HasPartitioner",
    "HasPrepare",
    "HasRefit",
    "HasSupports",
    "HookError",
    "InputKind",
    "InputSignature",
    "LeftToEager",
    "ManifestError",
    "NoOptions",
    "NotCacheable",
    "NotSavable",
    "OfferedValues",
    "OnBackendError",
    "OptionError",
    "OptionTypeError",
    "OutputSignature",
    "PartReport",
    "PartitionPlan",
    "PlannedPart",
    "PluginError",
    "PluginLoadError",
    "PluginWarning",
    "Plugins",
    "PrepareFailed",
    "Refusal",
    "ResolvedBackend",
    "RuntimeContext",
    "SymbolicNumber",
    "TensorSpec",
    "Tolerance",
    "Unavailable",
    "UnknownBackend",
    "UnknownMode",
    "UnknownOption",
    "UnstableGraph",
    "Unsupported",
    "UnsupportedGraph",
    "UnusableStore",
    "WeightsChange",
    "aot_compile",
    "artifact_settings_from_environment",
    "artifacts_wanted",
    "as_torch_backend",
    "beyond_aot",
    "boxed",
    "boxed_compiler",
    "close_backends",
    "collecting",
    "compile_context",
    "constants_of",
    "core_decompositions",
    "current_artifact_settings",
    "device_of",
    "graph_hash",
    "hookimpl",
    "hookspec",
    "list_backends",
    "listen_to_artifacts",
    "listen_to_cache",
    "listen_to_weights",
    "load_backend",
    "load_graph",
    "load_plugins",
    "lookup_backend",
    "offering",
    "real_examples",
    "refresh",
    "resolve_backend",
    "run_in_eager",
    "runtime_of",
    "save_graph",
    "shared_of",
    "show_artifact",
    "signature_of",
    "symbols_of",
    "timed_stage",
    "using_artifact_settings",
]
