"""Tests what this backend compiles for NVIDIA's GPUs on a machine without one. Needs the package `triton`.

with cross_compiling("sm_90") as session:
    compiled = session.compile(graph, fake_cuda_inputs)
    for kernel in session.kernels:
        kernel.cubin()
    compiled(*cpu_inputs)
"""

from .errors import HarnessError
from .kernel import Cubin, Kernel
from .session import Session, cross_compiling
from .target import TARGETS, Target

__all__ = ["TARGETS", "Cubin", "HarnessError", "Kernel", "Session", "Target", "cross_compiling"]
