"""A Triton driver that names a GPU and has none."""

from __future__ import annotations

from typing import Any, NoReturn

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.backends.nvidia.driver import ty_to_cpp

from .errors import HarnessError
from .target import Target


class StandInDriver(DriverBase):  # type: ignore[misc]  # triton ships no types
    """Answers what compilers ask about the target; whatever would touch a GPU is refused."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target
        self.utils = StandInUtils(target)

    @classmethod
    def is_active(cls) -> bool:
        return False  # never found, only put in place by hand

    def map_python_to_cpp_type(self, ty: str) -> str:
        return str(ty_to_cpp(ty))

    def get_current_target(self) -> GPUTarget:
        return gpu_target(self.target)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> NoReturn:
        _refuse("a tensor on the device")

    def get_benchmarker(self) -> NoReturn:
        _refuse("the time of a kernel")

    def launcher_cls(self, *args: Any) -> NoReturn:
        _refuse("the launch of a kernel")


class StandInUtils:
    """The part of a driver that loads binaries and knows the device's limits."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def get_device_properties(self, device: int) -> dict[str, int]:
        """What a CUDA driver's utilities tell."""
        return {
            "max_shared_mem": self._target.shared_memory_per_block_optin,
            "max_num_regs": self._target.regs_per_multiprocessor,
            "multiprocessor_count": self._target.multi_processor_count,
            "warpSize": self._target.warp_size,
        }

    def load_binary(self, *args: Any) -> NoReturn:
        """Refused: there is no device to load onto."""
        _refuse("a binary on the device")

    def unload_module(self, module: Any) -> None:
        """Nothing was loaded."""


def gpu_target(target: Target) -> GPUTarget:
    """The target in Triton's form."""
    return GPUTarget("cuda", target.arch, target.warp_size)


def _refuse(what: str) -> NoReturn:
    raise HarnessError(f"there is no GPU here: the cross-compile harness cannot give {what}")
