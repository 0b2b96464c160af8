"""The main backend: Inductor, with Triton on GPUs and C++ on CPUs."""

from .backend import InductorBackend, inductor_gpu
from .options import MODES, InductorOptions

__all__ = ["MODES", "InductorBackend", "InductorOptions", "inductor_gpu"]
