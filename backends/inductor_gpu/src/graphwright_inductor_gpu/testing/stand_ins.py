"""The stand-ins under which Inductor believes in a GPU: for torch's CUDA calls and for Triton's driver."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch
from triton.runtime import driver

from .device_guard import cuda_device_guard
from .patches import Patches
from .target import Target
from .torch_compat import (
    CudaInterface,
    FakeTensorMode,
    PyCodeCache,
    forget_device,
    inductor_settings,
    native_guards,
    set_up_patterns,
    torch_c,
    triton_helpers,
)
from .triton_driver import StandInDriver

_VARIABLES = ("TRITON_CACHE_DIR", "TRITON_LIBDEVICE_PATH", "TRITON_PTXAS_PATH")
"""What Inductor puts into the environment when it loads a kernel."""

_SETTINGS = {
    "force_disable_caches": True,  # what is compiled here is no use to anybody else
    "compile_threads": 1,
    "shape_padding": False,  # whether to pad matrices is decided by the clock, on the device
}


@contextlib.contextmanager
def pretending(target: Target) -> Iterator[None]:
    """Make torch and Triton answer questions about the GPU as if it were this target.

    Tensors "on" the GPU are fakes. What allocates one for real, as compiled code does, gets one on the CPU.
    """
    set_up_patterns()
    with contextlib.ExitStack() as stack:
        stack.callback(forget_device)
        stack.enter_context(_kept_environment())
        stack.enter_context(cuda_device_guard())
        patches = stack.enter_context(Patches())
        _stand_in_for_cuda(patches, target)
        _stand_in_for_allocation(patches)
        patches.set(driver, "_active", StandInDriver(target))
        patches.set(triton_helpers, "set_driver_to_gpu", _nothing)
        # Nothing from another session, and nothing left for one: kernels belong to the session that loaded them.
        patches.set(PyCodeCache, "modules", [])
        patches.set(PyCodeCache, "modules_no_attr", {})
        stack.enter_context(inductor_settings(**_SETTINGS))
        forget_device()
        yield


def _stand_in_for_cuda(patches: Patches, target: Target) -> None:
    """Answer torch's questions; what selects, waits for or seeds the GPU does nothing."""
    answers: dict[str, Any] = {
        "is_available": _always(True),
        "device_count": _always(1),
        "current_device": _always(0),
        "get_device_properties": _always(target),
        "get_device_capability": _always(target.capability),
        "get_device_name": _always(target.device_name),
        "is_bf16_supported": _always(True),
        "is_tf32_supported": _always(True),
        "memory_allocated": _always(0),
        "set_device": _nothing,
        "synchronize": _nothing,
        "_exchange_device": _always(0),
        "_maybe_exchange_device": _always(0),
        "get_rng_state": _no_random_state,
        "set_rng_state": _nothing,
    }
    for name, answer in answers.items():
        patches.set(torch.cuda, name, answer)
        public = name.removeprefix("_")
        if public in vars(CudaInterface):
            patches.set(CudaInterface, public, staticmethod(answer))
    patches.set(CudaInterface, "get_raw_stream", staticmethod(_always(0)))
    patches.set(CudaInterface.Worker, "get_device_properties", staticmethod(_always(target)))
    patches.set(CudaInterface.Worker, "current_device", staticmethod(_always(0)))
    patches.set(torch_c, "_cuda_getCurrentRawStream", _always(0))
    # A fake mode must go on to keep away from the device, although there seems to be one.
    patches.set(FakeTensorMode, "avoid_device_init", property(_always(True)))


def _stand_in_for_allocation(patches: Patches) -> None:
    """Let generated code make its tensors on the CPU: by its own function for that, and where it names the device."""
    patches.set(native_guards, "_empty_strided_cuda", vars(native_guards)["_empty_strided_cpu"])
    load = PyCodeCache.load_by_key_path

    def load_for_cpu(*args: Any, **keywords: Any) -> Any:
        module = load(*args, **keywords)
        if vars(module).get("device") is torch.device:
            vars(module)["device"] = _cpu_instead
        return module

    patches.set(PyCodeCache, "load_by_key_path", staticmethod(load_for_cpu))


def _cpu_instead(*args: Any, **keywords: Any) -> torch.device:
    named = torch.device(*args, **keywords)
    return torch.device("cpu") if named.type == "cuda" else named


@contextlib.contextmanager
def _kept_environment() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _VARIABLES}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _always(answer: Any) -> Any:
    return lambda *_, **__: answer


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _no_random_state(*_: Any, **__: Any) -> torch.Tensor:
    return torch.zeros(0, dtype=torch.uint8, device="cpu")
