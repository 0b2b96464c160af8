"""Every private name of torch that the harness uses, and nothing else in it imports one.

Tried with torch 2.13 only. When a torch release moves a name, this is the file to change.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
from torch._C._dynamo import guards as native_guards
from torch._dynamo.device_interface import CudaInterface
from torch._inductor import async_compile, codecache, config
from torch._inductor import compile_fx as compile_fx_module
from torch._inductor.fx_passes import joint_graph, misc_patterns, post_grad, pre_grad
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_heuristics import GridExpr
from torch._subclasses.fake_tensor import FakeTensorMode

__all__ = [
    "DEVICE_GUARD_REGISTRY",
    "LIBC10",
    "AsyncCompile",
    "CudaInterface",
    "FakeTensorMode",
    "PyCodeCache",
    "compile_fx_module",
    "compile_meta",
    "compile_options",
    "device_type_number",
    "forget_device",
    "inductor_settings",
    "launch_grid",
    "load_kernel",
    "native_guards",
    "set_up_patterns",
    "torch_c",
    "triton_helpers",
]

DEVICE_GUARD_REGISTRY: Final = "_ZN3c104impl26device_guard_impl_registryE"
"""The symbol of `c10::impl::device_guard_impl_registry`."""
LIBC10: Final = Path(torch.__file__).parent / "lib" / "libc10.so"
"""The library that has it."""
AsyncCompile: Final = async_compile.AsyncCompile
PyCodeCache: Final = codecache.PyCodeCache
torch_c: Final[ModuleType] = torch._C

# What remembers an answer about the device, or one that depends on it.
_DEVICE_CACHES: Final = (
    ("torch._inductor.codecache", "CacheBase.get_system"),
    ("torch._inductor.codecache", "CacheBase.get_local_cache_path"),
    ("torch._inductor.codegen.cuda.cuda_env", "get_cuda_arch"),
    ("torch._inductor.codegen.cuda.cuda_env", "is_datacenter_blackwell_arch"),
    ("torch._inductor.codegen.triton", "TritonKernel.gen_common_triton_imports"),
    ("torch._inductor.comm_analysis", "get_gpu_type"),
    ("torch._inductor.comm_analysis", "_has_nvlink"),
    ("torch._inductor.compile_fx", "_warn_tf32_disabled"),
    ("torch._inductor.kernel.mm", "_is_sm7x_or_older_gpu"),
    ("torch._inductor.runtime.hints", "DeviceProperties.create"),
    ("torch._inductor.utils", "get_gpu_type"),
    ("torch._inductor.utils", "is_big_gpu"),
    ("torch._inductor.utils", "get_max_num_sms"),
    ("torch._inductor.utils", "using_b200"),
    ("torch._inductor.utils", "get_backend_num_stages"),
    ("torch._inductor.utils", "get_device_tflops"),
    ("torch._inductor.utils", "get_gpu_dram_gbps"),
    ("torch._inductor.utils", "get_gpu_shared_memory"),
    ("torch._utils_internal", "max_clock_rate"),
    ("torch.utils._triton", "_device_supports_tma"),
    ("torch.utils._triton", "has_triton"),
    ("torch.utils._triton", "has_triton_experimental_host_tma"),
    ("torch.utils._triton", "has_triton_tensor_descriptor_host_tma"),
    ("torch.utils._triton", "has_triton_tma"),
    ("torch.utils._triton", "has_triton_tma_device"),
    ("torch.utils._triton", "has_datacenter_blackwell_tma_device"),
    ("torch.utils._triton", "has_triton_stable_tma_api"),
    ("torch.utils._triton", "triton_backend"),
    ("torch.utils._triton", "triton_hash_with_backend"),
)


def forget_device() -> None:
    """Empty the caches of what torch knows about the GPU."""
    for module, path in _DEVICE_CACHES:
        if module in sys.modules:
            owner: Any = sys.modules[module]
            for name in path.split("."):
                owner = getattr(owner, name, None)
            clear = getattr(owner, "cache_clear", None)
            if clear is not None:
                clear()


def device_type_number(name: str) -> int:
    """The place of a type of device in torch's tables."""
    return int(getattr(torch_c._autograd.DeviceType, name))


def set_up_patterns() -> None:
    """Let the pattern matcher set itself up for this machine, which it does once in a process.

    What it sets up for one type of device, when it first meets it, it traces on fakes anyway.
    """
    pre_grad.lazy_init()
    post_grad.lazy_init()
    misc_patterns._misc_patterns_init()
    joint_graph.lazy_init(torch.device("cpu"))


def inductor_settings(**settings: Any) -> Any:
    """A context with these settings of Inductor's."""
    return config.patch(settings)


def load_kernel(name: str, source: str) -> Any:
    """Run the source of a Triton kernel; what comes back is Inductor's autotuner around it."""
    return getattr(PyCodeCache.load(source), name)


def compile_meta(autotuner: Any, choice: Any) -> dict[str, Any]:
    """What Inductor tells Triton about a kernel's arguments in one of its configurations."""
    return dict(autotuner._create_compile_meta(choice))


def compile_options(autotuner: Any, choice: Any, meta: dict[str, Any]) -> dict[str, Any]:
    """With which options Inductor calls Triton."""
    return dict(autotuner._create_compile_options(choice, meta))


def launch_grid(autotuner: Any, choice: Any, arguments: dict[str, Any]) -> tuple[int, int, int]:
    """How many programs of a kernel Inductor starts for these arguments."""
    return GridExpr.from_meta(autotuner.inductor_meta, choice).eval_slow(arguments)
