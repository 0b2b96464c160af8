"""Help around AOTAutograd, for backends that compile graphs of operators."""

from .compile import (
    Partition,
    aot_compile,
    boxed,
    boxed_compiler,
    compile_context,
    core_decompositions,
    positional,
    run_in_eager,
)
from .limits import beyond_aot

__all__ = [
    "Partition",
    "aot_compile",
    "beyond_aot",
    "boxed",
    "boxed_compiler",
    "compile_context",
    "core_decompositions",
    "positional",
    "run_in_eager",
]
