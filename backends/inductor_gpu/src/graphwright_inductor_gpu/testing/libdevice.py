"""CUDA's math library on the CPU: what Inductor's kernels call of it, computed by torch.

Triton's interpreter has none of it. Results are torch's, not the GPU's: they show that the right function is called
with the right arguments, and not how the GPU rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np
import torch
import triton.language as tl
from triton.language.extra import libdevice

from .errors import HarnessError
from .triton_compat import interpreter_semantic, make_tensor

Compute: TypeAlias = Callable[..., torch.Tensor]


def _as_int(function: Compute) -> Compute:
    return lambda x: function(x).to(torch.int32)


_KNOWN: Final[Mapping[str, Compute]] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos", "cosh", "erf"),
            *("erfc", "erfinv", "exp", "exp2", "expm1", "floor", "fmod", "hypot", "lgamma", "log", "log10", "log1p"),
            *("log2", "nextafter", "pow", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "abs"),
        )
    },
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "erfcx": torch.special.erfcx,
    "fast_tanhf": torch.tanh,
    "fma": lambda x, y, z: (x.double() * y.double() + z.double()).to(x.dtype),
    "isinf": _as_int(torch.isinf),
    "isnan": _as_int(torch.isnan),
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "ldexp": lambda x, exponent: torch.ldexp(x, exponent),
    "llrint": lambda x: torch.round(x).to(torch.int64),
    "mul_rn": torch.mul,
    "nearbyint": torch.round,
    "signbit": _as_int(torch.signbit),
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
}
_DTYPES: Final = {
    torch.float32: tl.float32,
    torch.float64: tl.float64,
    torch.int32: tl.int32,
    torch.int64: tl.int64,
}


def on_cpu(name: str, compute: Compute) -> Callable[..., Any]:
    """A function of the library for the interpreter: takes and returns its values."""

    def call(*args: Any, _semantic: Any = None) -> Any:
        del _semantic  # there is only the interpreter's
        given = [interpreter_semantic.to_tensor(arg) for arg in args]
        arrays = np.broadcast_arrays(*(value.handle.data for value in given))
        result = compute(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))
        if result.dtype not in _DTYPES:
            raise HarnessError(
                f"libdevice.{name} on the CPU gave {result.dtype}, which no function of the library does"
            )
        block = any(value.type.is_block() for value in given)
        return make_tensor(result.numpy(), _DTYPES[result.dtype], block)

    return call


def _refuse(name: str) -> Compute:
    def compute(*_: torch.Tensor) -> NoReturn:
        raise HarnessError(
            f"a kernel calls libdevice.{name}, for which the cross-compile harness has nothing on the CPU; add it to "
            "the table in testing/libdevice.py"
        )

    return compute


_NAMES: Final = [name for name, value in vars(libdevice).items() if callable(value)]
FUNCTIONS: Final[Mapping[str, Compute]] = MappingProxyType({name: _KNOWN.get(name, _refuse(name)) for name in _NAMES})
"""Every function of the library by name; those not known refuse to run."""
