"""Gives the native extension what it needs to read tensors and thread state, and samples to test itself on."""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, cast

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

import graphwright._native as _native
import graphwright.events as events
from graphwright.torch_compat import (
    DeviceContext,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TensorBase,
    TorchDispatchMode,
    read_ambient,
)


def read_tensor(tensor: torch.Tensor) -> tuple[Any, ...]:
    """dtype, device type and index (-1: none), layout, requires_grad, sizes, strides or None, conj, neg, `_cdata`."""
    with DisableTorchFunction():
        strided = tensor.layout is torch.strided
        index = cast("int | None", tensor.device.index)  # None where torch annotates int: a device without a number
        return (
            tensor.dtype,
            tensor.device.type,
            -1 if index is None else index,
            tensor.layout,
            tensor.requires_grad,
            tuple(tensor.shape),
            tensor.stride() if strided else None,
            tensor.is_conj(),
            tensor.is_neg(),
            tensor._cdata,
        )


def read_storage(tensor: torch.Tensor) -> int:
    """Address of the storage's memory; 0 when it has none."""
    with DisableTorchFunction():
        if tensor.layout is not torch.strided:
            return 0
        try:
            return tensor.untyped_storage().data_ptr()
        except RuntimeError:  # fake tensors and functorch's wrappers have no memory
            return 0


class _ModeIdentity:
    """A function mode that only equals itself; weak, so that guards do not keep it alive."""

    __slots__ = ("_ref",)

    def __init__(self, mode: object) -> None:
        self._ref = weakref.ref(mode)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ModeIdentity) and self._ref() is not None and self._ref() is other._ref()

    def __hash__(self) -> int:
        return id(self)


def mode_key(mode: Any) -> object:
    """What tells function modes apart that act differently; `with torch.device(d)` makes a new, equal one each time."""
    if type(mode) is DeviceContext:
        return ("device", mode.device)
    return _ModeIdentity(mode)


def sample_tensors() -> tuple[torch.Tensor, ...]:
    """Tensors of many kinds, which the fast reader must read as `read_tensor` does."""
    zeros = torch.zeros
    parameter = torch.nn.Parameter(zeros(2, 3))
    complex_zeros = zeros(3, dtype=torch.complex64)
    found = [
        zeros(()),
        zeros(0),
        zeros(3),
        zeros(2, 3),
        zeros(2, 3).t(),
        zeros(4, 6)[1:3, ::2],
        zeros(1, 2, 3, 4, 5, 6),
    ]
    found += [zeros(2, 3, requires_grad=True), parameter, parameter.detach(), parameter + 1, complex_zeros.conj()]
    found += [complex_zeros.conj().imag, zeros(2, 3, device="meta"), zeros(2, 3).to_sparse(), zeros(3).expand(5, 3)]
    dtypes = [
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
    ]
    dtypes += [torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2]
    found += [torch.empty(2, dtype=dtype) for dtype in dtypes]
    return tuple(found)


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _deterministic(*, warn_only: bool) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@contextlib.contextmanager
def _autocast_cache_flipped() -> Iterator[None]:
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(not before)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


class _FunctionMode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class _DispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def ambient_contexts() -> tuple[AbstractContextManager[Any], ...]:
    """Contexts in each of which the fast reading of thread state must equal Python's."""
    return (
        torch.no_grad(),
        torch.enable_grad(),
        torch.inference_mode(),
        _default_dtype(torch.float64),
        _deterministic(warn_only=False),
        _deterministic(warn_only=True),
        _autocast_cache_flipped(),
        torch.autocast("cpu", torch.bfloat16),
        torch.autocast("cpu", torch.float16),
        DisableTorchFunctionSubclass(),
        DisableTorchFunction(),
        _FunctionMode(),
        _DispatchMode(),  # type: ignore[no-untyped-call]  # torch does not annotate the constructor
        torch.device("meta"),
        sdpa_kernel(SDPBackend.MATH),
    )


def set_up_native() -> dict[str, Any]:
    """Prepare the extension; once, at import. Says which of its fast ways are on."""
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        mechanisms = _native.setup_torch(
            TensorBase, read_tensor, read_storage, sample_tensors(), read_ambient, mode_key, ambient_contexts()
        )
    for name, value in mechanisms.items():
        if value is False:
            events.emit(
                events.MechanismOff(mechanism=name, reason="its self-test failed on this build of torch or CPython")
            )
    return mechanisms
