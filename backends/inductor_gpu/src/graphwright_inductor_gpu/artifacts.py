"""Saving what Inductor compiled, and loading it in another process.

Inductor and AOTAutograd know how to write what they made as bytes: the generated source, the backward graph's too, and
what AOTAutograd does around the kernels. We add what stands around that. Loaded sources go through Inductor's own
cache of compiled kernels: where that has been emptied, the C++ compiler or Triton runs again, but nothing else does.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from graphwright_plugins import CompiledGraph, NotCacheable
from graphwright_plugins.aot.gradient_paths import GradientPaths
from graphwright_plugins.artifacts.key import stable
from graphwright_plugins.graphs.unused_results import first_results

from .availability import compiler_name
from .constants import Results, with_constants
from .floats import holding_floats
from .options import InductorOptions, to_config
from .torch_compat import (
    compiler_version,
    function_settings,
    inductor_settings,
    kernels_from_bytes,
    kernels_to_bytes,
    system_parts,
)

_PARTS: Final = "graphwright_parts"


@dataclass(frozen=True)
class Recipe:
    """What stands around the function that Inductor makes of a graph."""

    float_places: tuple[int, ...] = ()
    """Inputs that are floats, and that the kernels take in tensors."""
    results: Results | None = None
    """The graph's results, where some are plain numbers."""
    count: int | None = None
    """How many results the graph has, where the kernels give more."""
    gradients: GradientPaths | None = None
    """Which inputs the graph's results give gradients to, where not all do to the same."""

    def around(self, kernels: CompiledGraph) -> CompiledGraph:
        """The function that does what the graph does."""
        function = holding_floats(kernels, self.float_places) if self.float_places else kernels
        if self.results is not None:
            function = with_constants(function, self.results)
        if self.count is not None:
            function = first_results(function, self.count)
        return function if self.gradients is None else self.gradients.around(function)


def note_parts(function: CompiledGraph, kernels: CompiledGraph, recipe: Recipe) -> None:
    """Remember what a function that will be saved is made of, until it is."""
    setattr(function, _PARTS, (kernels, recipe))


def save(function: CompiledGraph) -> bytes:
    """The function as bytes.

    Raises:
        NotCacheable: Something in it is known to this process alone.
    """
    parts = function.__dict__.pop(_PARTS, None)  # a function that knew its parts for good would be in a cycle
    if parts is None:
        raise NotCacheable("it was not compiled to be saved")
    kernels, recipe = parts
    try:
        return pickle.dumps((recipe, kernels_to_bytes(kernels)))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise NotCacheable(f"part of it can't be written down: {error}") from error


def load(data: bytes, options: InductorOptions) -> CompiledGraph:
    """The function that these bytes are of."""
    recipe, kernels = pickle.loads(data)
    function: CompiledGraph = recipe.around(kernels_from_bytes(kernels, to_config(options)))
    return function


def key_parts(options: InductorOptions) -> Mapping[str, str]:
    """What the kernels depend on beside the graph: Inductor's settings and code, compilers, processor and GPU.

    Raises:
        NotCacheable: A setting of Inductor's is a function, or CUDA graphs are recorded, which live in one process.
    """
    settings = {**inductor_settings(), **to_config(options)}
    for name, value in {**settings, **function_settings()}.items():
        if _is_function(value):
            raise NotCacheable(f"Inductor's setting {name!r} is a function, which another process can't recognise")
    if settings.get("triton.cudagraphs"):
        raise NotCacheable("CUDA graphs are recorded, which live in one process")
    text = json.dumps({name: stable(value, name) for name, value in settings.items()}, sort_keys=True)
    compiler = compiler_name()
    return {
        "settings": hashlib.sha256(text.encode()).hexdigest(),
        "compiler": f"{compiler} {compiler_version(compiler)}",
        **system_parts(),
    }


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)
