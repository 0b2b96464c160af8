"""The backend `cudagraphs`: graphs of operators are recorded as CUDA graphs and replayed."""

from .backend import CudaGraphsBackend, cudagraphs
from .compiling import CompiledCudaGraphs
from .notices import CudaGraphsWarning, Notice
from .options import CudaGraphsOptions

__all__ = [
    "CompiledCudaGraphs",
    "CudaGraphsBackend",
    "CudaGraphsOptions",
    "CudaGraphsWarning",
    "Notice",
    "cudagraphs",
]
