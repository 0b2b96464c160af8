"""The GPUs that kernels can be compiled for without having one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True)
class Target:
    """A kind of GPU, as far as Inductor and Triton ask about it."""

    name: str
    """As compilers call it: `sm_90`."""
    device_name: str
    """As the driver calls it."""
    major: int
    minor: int
    multi_processor_count: int
    shared_memory_per_block_optin: int
    """Bytes that one block can have at most."""
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    total_memory: int
    shared_memory_per_block: int = 48 << 10
    regs_per_multiprocessor: int = 65536
    max_threads_per_multi_processor: int = 2048
    max_threads_per_block: int = 1024
    warp_size: int = 32
    gcnArchName: str = ""
    """What AMD's devices have, and torch asks of every device."""

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability, as `torch.cuda.get_device_capability` returns it."""
        return self.major, self.minor

    @property
    def arch(self) -> int:
        """The compute capability as one number, as Triton has it."""
        return 10 * self.major + self.minor


TARGETS: Final[Mapping[str, Target]] = MappingProxyType(
    {
        target.name: target
        for target in (
            Target("sm_80", "NVIDIA A100-SXM4-80GB", 8, 0, 108, 163 << 10, 164 << 10, 40 << 20, 80 << 30),
            Target("sm_90", "NVIDIA H100 80GB HBM3", 9, 0, 132, 227 << 10, 228 << 10, 50 << 20, 80 << 30),
            Target("sm_100", "NVIDIA B200", 10, 0, 148, 227 << 10, 228 << 10, 126 << 20, 180 << 30),
        )
    }
)
"""The targets by name."""
