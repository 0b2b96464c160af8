"""The key of a compiled graph: all that what was compiled depends on, as text that every process writes alike."""

from __future__ import annotations

import enum
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins.errors import BackendContractError, NotCacheable
from graphwright_plugins.graphs.hashing import graph_hash
from graphwright_plugins.naming import backend_in_words, raised
from graphwright_plugins.protocol import Backend, HasArtifacts
from graphwright_plugins.store.artifact_store import ArtifactMeta
from graphwright_plugins.torch_compat import ATTENTION_KERNELS, TORCH_VERSION, fills_uninitialized_memory, torch_build
from graphwright_plugins.version import API_VERSION

from .code_version import code_version

_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))
_TORCH_PLAIN: Final = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_SWITCHES: Final = (
    "fp32_precision",
    "cuda.matmul.fp32_precision",
    "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_bf16_reduced_precision_reduction",
    "cuda.matmul.allow_fp16_accumulation",
    "cudnn.enabled",
    "cudnn.benchmark",
    "cudnn.deterministic",
    "cudnn.fp32_precision",
    "cudnn.conv.fp32_precision",
    "cudnn.rnn.fp32_precision",
    "mkldnn.enabled",
    "mkldnn.deterministic",
    "mkldnn.fp32_precision",
    "mkldnn.conv.fp32_precision",
    "mkldnn.matmul.fp32_precision",
    "mkldnn.rnn.fp32_precision",
)
"""Attributes of `torch.backends` that kernels are chosen by."""


def artifact_meta(
    backend: Backend,
    distribution: str | None,
    version: str | None,
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Any,
) -> ArtifactMeta:
    """What a graph's compilation depends on, all of it.

    Raises:
        NotCacheable: The backend says that it can't be told, its version isn't known, or an option is an object that
            no other process knows.
        UnstableGraph: The graph can't be recognised in another process.
        BackendContractError: `cache_key_parts` raised what is no error of the contract's, or gives no mapping.
    """
    if not isinstance(backend, HasArtifacts):
        raise TypeError(f"backend {backend.name!r} saves no artifacts: it has no method cache_key_parts")
    parts = _key_parts(backend, options, backend_in_words(backend.name, distribution, version))
    if distribution is None and "version" not in parts:
        raise NotCacheable(
            "the backend was passed as an object, so that its version isn't known; it may give one in cache_key_parts, "
            "as 'version'",
        )
    return ArtifactMeta(
        backend=backend.name,
        distribution=distribution,
        version=version,
        api_version=API_VERSION,
        torch_version=TORCH_VERSION,
        graph=graph_hash(graph, example_inputs),
        options=json.dumps(stable(options, "options")),
        key_parts=parts,
        environment={
            **_platform(),
            **_state(),
            "code": code_version(type(backend).__module__, distribution),
            # The hash knows no names, but `update_weights` of what is loaded is told them.
            "held": json.dumps([str(node.target) for node in graph.graph.find_nodes(op="get_attr")]),
        },
    )


def _key_parts(backend: HasArtifacts, options: Any, whose: str) -> dict[str, str]:
    expected = "it must return a mapping of names to texts; report it to the backend's authors"
    try:
        given: object = backend.cache_key_parts(options)
    except NotCacheable:
        raise
    except Exception as error:
        raise BackendContractError(f"cache_key_parts of {whose} raised {raised(error)}; {expected}") from error
    if not isinstance(given, Mapping):
        raise BackendContractError(f"cache_key_parts of {whose} returned {given!r}; {expected}")
    return {str(name): str(part) for name, part in given.items()}


def artifact_key(meta: ArtifactMeta) -> str:
    """The key of what this describes: 64 hexadecimal digits. What it assumes of sizes is no part of it."""
    facts = asdict(meta)
    del facts["assumptions"]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def stable(value: Any, where: str) -> Any:
    """An option's value as nested lists of text, equal in every process exactly where the values are equal.

    Raises:
        NotCacheable: The value, or one in it, is an object that only this process knows.
    """
    if type(value) in _PLAIN or isinstance(value, _TORCH_PLAIN):
        return [type(value).__name__, repr(value)]
    if isinstance(value, enum.Enum):
        return ["enum", _class_name(value), value.name]
    if isinstance(value, Path):
        return ["path", str(value)]
    if is_dataclass(value) and not isinstance(value, type):
        items = [[field.name, stable(getattr(value, field.name), f"{where}.{field.name}")] for field in fields(value)]
        return ["dataclass", _class_name(value), items]
    if isinstance(value, Mapping):
        pairs = [[stable(key, where), stable(item, f"{where}[{key!r}]")] for key, item in value.items()]
        return ["mapping", sorted(pairs, key=json.dumps)]
    if isinstance(value, (list, tuple)):
        return ["sequence", type(value).__name__, [stable(item, where) for item in value]]
    if isinstance(value, (set, frozenset)):
        return ["set", sorted((stable(item, where) for item in value), key=json.dumps)]
    raise NotCacheable(f"{where} is a {type(value).__qualname__}, which another process can't recognise")


def _class_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _platform() -> dict[str, str]:
    return {
        "python": str(sys.implementation.cache_tag),
        "platform": f"{sys.platform} {torch_build()}",
    }


def _state() -> dict[str, str]:
    """State of torch that decides what a graph computes, or which kernels do."""
    devices = dict.fromkeys(("cpu", "cuda", *_accelerator()))
    autocast = {d: (torch.is_autocast_enabled(d), str(torch.get_autocast_dtype(d))) for d in devices}
    return {
        "grad": f"{torch.is_grad_enabled()} {torch.is_inference_mode_enabled()}",
        "autocast": f"{autocast} {torch.is_autocast_cache_enabled()}",
        "defaults": f"{torch.get_default_dtype()} {torch.get_default_device()}",
        "deterministic": f"{torch.are_deterministic_algorithms_enabled()} "
        f"{torch.is_deterministic_algorithms_warn_only_enabled()} "
        f"{fills_uninitialized_memory()}",
        "matmul": torch.get_float32_matmul_precision(),
        "attention": str([allowed() for allowed, _ in ATTENTION_KERNELS]),
        "switches": str({name: _switch(name) for name in _SWITCHES}),
        "threads": str(torch.get_num_threads()),
    }


def _accelerator() -> tuple[str, ...]:
    device = torch.accelerator.current_accelerator(check_available=False)
    return () if device is None else (device.type,)


def _switch(path: str) -> Any:
    value: Any = torch.backends
    for part in path.split("."):
        value = getattr(value, part, None)
    return value
