"""What `setup_torch` takes: readers in Python, sample tensors, ambient contexts."""

import contextlib
import weakref
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import TorchDispatchMode


def read_tensor(tensor: torch.Tensor) -> tuple[Any, ...]:
    with torch._C.DisableTorchFunction():
        index = tensor.device.index
        return (
            tensor.dtype,
            tensor.device.type,
            -1 if index is None else index,
            tensor.layout,
            tensor.requires_grad,
            tuple(tensor.shape),
            tensor.stride() if tensor.layout is torch.strided else None,
            tensor.is_conj(),
            tensor.is_neg(),
            tensor._cdata,
        )


def read_storage(tensor: torch.Tensor) -> int:
    with torch._C.DisableTorchFunction():
        try:
            return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else 0
        except RuntimeError:  # no storage
            return 0


def read_ambient() -> dict[str, Any]:
    return {
        "grad_mode": torch.is_grad_enabled(),
        "inference_mode": torch.is_inference_mode_enabled(),
        "default_dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "deterministic_warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "autocast_cache": torch.is_autocast_cache_enabled(),
        "autocast_cpu_dtype": torch.get_autocast_dtype("cpu"),
        "autocast_cuda_dtype": torch.get_autocast_dtype("cuda"),
        "function_modes": torch._C._len_torch_function_stack(),
        "dispatch_modes": torch._C._len_torch_dispatch_stack(),
        "function_mode_state": function_mode_state(),
        "attention_kernels": attention_kernels(),
        "num_threads": torch.get_num_threads(),
        "included": torch._C._dispatch_tls_local_include_set().raw_repr(),
        "excluded": torch._C._dispatch_tls_local_exclude_set().raw_repr(),
    }


def function_mode_state() -> int:
    if torch._C._is_torch_function_enabled():
        return 0
    return 2 if torch._C._is_torch_function_all_disabled() else 1


def attention_kernels() -> int:
    kernels = ("flash", "mem_efficient", "math", "cudnn", "overrideable")
    return sum(getattr(torch._C, f"_get_{kernel}_sdp_enabled")() << i for i, kernel in enumerate(kernels))


class ModeIdentity:
    def __init__(self, mode: object) -> None:
        self.ref = weakref.ref(mode)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModeIdentity) and self.ref() is not None and self.ref() is other.ref()

    __hash__ = None  # type: ignore[assignment]


def mode_key(mode: object) -> object:
    return ("device", mode.device) if type(mode) is DeviceContext else ModeIdentity(mode)


class PassFunctions(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class PassDispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(before)


@contextlib.contextmanager
def deterministic(warn_only: bool) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    yield
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@contextlib.contextmanager
def autocast_cache_switched() -> Iterator[None]:
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(not before)
    yield
    torch.set_autocast_cache_enabled(before)


@contextlib.contextmanager
def one_thread_more() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    yield
    torch.set_num_threads(before)


def contexts() -> dict[str, Any]:
    """Each changes one thing of the ambient state."""
    return {
        "grad_mode": torch.no_grad(),
        "inference_mode": torch.inference_mode(),
        "default_dtype": default_dtype(torch.float64),
        "deterministic": deterministic(False),
        "deterministic_warn_only": deterministic(True),
        "autocast_cache": autocast_cache_switched(),
        "autocast": torch.autocast("cpu", torch.bfloat16),
        "autocast_cpu_dtype": torch.autocast("cpu", torch.float16),
        "subclasses_disabled": torch._C.DisableTorchFunctionSubclass(),
        "function_modes_disabled": torch._C.DisableTorchFunction(),
        "function_modes": PassFunctions(),
        "dispatch_modes": PassDispatch(),
        "device": torch.device("meta"),
        "attention_kernels": sdpa_kernel(SDPBackend.MATH),
        "num_threads": one_thread_more(),
    }


def samples() -> tuple[torch.Tensor, ...]:
    zeros = torch.zeros
    parameter = torch.nn.Parameter(zeros(2, 3))
    conjugate = zeros(3, dtype=torch.complex64).conj()
    made = [
        zeros(()),
        zeros(0),
        zeros(2, 3),
        zeros(2, 3).t(),
        zeros(4, 6)[1:3, ::2],
        zeros(1, 2, 3, 4, 5, 6),
        zeros(3).expand(5, 3),
        zeros(2, 3, requires_grad=True),
        parameter,
        parameter.detach(),
        parameter + 1,
        conjugate,
        conjugate.imag,
        zeros(2, 3, device="meta"),
        zeros(2, 3).to_sparse(),
    ]
    dtypes = [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8]
    dtypes += [torch.uint8, torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2]
    return (*made, *(torch.empty(2, dtype=dtype) for dtype in dtypes))


def setup(native: ModuleType, reader: Any = read_tensor, ambient_reader: Any = read_ambient) -> dict[str, Any]:
    return native.setup_torch(
        torch._C.TensorBase, reader, read_storage, samples(), ambient_reader, mode_key, tuple(contexts().values())
    )
