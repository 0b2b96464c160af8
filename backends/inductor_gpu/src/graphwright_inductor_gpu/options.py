"""Options and modes of the backend `inductor_gpu`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from graphwright_plugins import OptionTypeError

from .setting_types import describe, fits
from .torch_compat import inductor_option_names, inductor_option_type

_OWN: Final = {
    "fallback_random": "fallback_random",
    "constant_folding": "joint_graph_constant_folding",
    "max_autotune": "max_autotune",
    "coordinate_descent_tuning": "coordinate_descent_tuning",
    "epilogue_fusion": "epilogue_fusion",
    "emulate_precision_casts": "emulate_precision_casts",
    "cudagraphs": "triton.cudagraphs",
}
"""Our options with Inductor's names for them."""

_TAKEN_OTHERWISE: Final = frozenset({"cpp.cxx"})
"""Settings that Inductor takes in other types than torch annotates: a compiler's name alone, here."""


@dataclass(frozen=True)
class InductorOptions:
    """How Inductor compiles graphs. None leaves a choice to Inductor's own setting, which the environment can set."""

    fallback_random: bool = True
    """Draw random numbers with eager's kernels, so that a seed gives the same numbers as in eager. False lets Inductor
    fuse the drawing into its own kernels, which is faster and draws other numbers."""
    constant_folding: bool = False
    """Leave out arithmetic on tensors that are all zeros or ones. An output that becomes an input thereby comes out as
    that very tensor, where eager makes a new one: a later change of one then changes the other."""
    max_autotune: bool | None = None
    """Time several kernels for each matrix product and convolution while compiling, and keep the fastest."""
    coordinate_descent_tuning: bool | None = None
    """Tune the block sizes of Triton kernels step by step; GPU only."""
    epilogue_fusion: bool | None = None
    """Fuse what follows a matrix product into its kernel, where the kernel is Inductor's own."""
    emulate_precision_casts: bool | None = None
    """Round to float16 or bfloat16 between fused operations, where eager does; slower, and closer to eager."""
    cudagraphs: bool | None = None
    """Record kernels as CUDA graphs and replay them; graphs on the CPU take no notice."""
    freezing: bool = False
    """Treat weights as constants where no gradient is asked for: arithmetic on them is done while compiling, and they
    are laid out as kernels like them best. A weight that changes is noticed, and the graph compiled anew."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Any of Inductor's own settings by name, as in `torch._inductor.config`: `{"max_fusion_size": 32}`."""

    def __post_init__(self) -> None:
        if self.config:
            _check_config(self.config)


MODES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "default": {},
        "reduce-overhead": {"cudagraphs": True},
        "max-autotune": {"max_autotune": True, "coordinate_descent_tuning": True, "cudagraphs": True},
        "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
    }
)
"""The modes of `torch.compile`, as options."""


def to_config(options: InductorOptions) -> dict[str, Any]:
    """Inductor's settings for these options; those left to Inductor are not in it."""
    chosen = {theirs: getattr(options, ours) for ours, theirs in _OWN.items()}
    return {**{name: value for name, value in chosen.items() if value is not None}, **options.config}


def _check_config(config: Mapping[str, Any]) -> None:
    known = inductor_option_names()
    ours = {theirs: own for own, theirs in _OWN.items()} | {"freezing": "freezing"}
    for name, value in config.items():
        if name in ours:
            raise ValueError(f"config has {name!r}, which is an option of its own: write {{{ours[name]!r}: ...}}")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise ValueError(
                f"config has {name!r}, which is no setting of Inductor in this torch.{hint} "
                "dir(torch._inductor.config) lists them"
            )
        expected = inductor_option_type(name)
        if name not in _TAKEN_OTHERWISE and not fits(value, expected):
            raise OptionTypeError(
                f"option 'config' of backend 'inductor_gpu' has {name!r}, which must be {describe(expected)}, "
                f"not {value!r} ({type(value).__name__})",
                backend="inductor_gpu",
                option="config",
            )
