"""Lets operators run on fake CUDA tensors in a torch that has no CUDA.

Some operators ask the device guard of a tensor's device for the current device or stream, fake or not. Without CUDA
there is none for CUDA devices, and they raise. The guard of the `meta` device, which does nothing, serves as well.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

from .errors import HarnessError
from .torch_compat import DEVICE_GUARD_REGISTRY, LIBC10, device_type_number


@contextlib.contextmanager
def cuda_device_guard() -> Iterator[None]:
    """Have a device guard for CUDA in this block.

    Raises:
        HarnessError: This build of torch keeps its guards somewhere else.
    """
    guards = _guards()
    cuda, stand_in = device_type_number("CUDA"), guards[device_type_number("Meta")]
    before = guards[cuda]
    if stand_in is None:
        raise HarnessError("torch has no device guard for `meta` tensors, which was to serve for CUDA tensors")
    if before is None:
        guards[cuda] = stand_in
    try:
        yield
    finally:
        guards[cuda] = before


def _guards() -> ctypes.Array[ctypes.c_void_p]:
    """Torch's table of device guards, one pointer for each type of device."""
    table = ctypes.c_void_p * (device_type_number("PrivateUse1") + 1)
    try:
        return table.in_dll(ctypes.CDLL(str(LIBC10)), DEVICE_GUARD_REGISTRY)
    except (OSError, ValueError) as error:
        raise HarnessError(
            f"torch's table of device guards is not in {LIBC10}: {error}. The harness is for Linux, and was tried with "
            "torch 2.13"
        ) from error
