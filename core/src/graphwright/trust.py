"""Which code is taken to stay as it is: the standard library, torch, numpy. The rest is guarded."""

from __future__ import annotations

import sys

from graphwright.torch_compat import TORCH_INTERNALS

_TRUSTED_ROOTS = frozenset({"torch", "numpy", "torchgen", "functorch", "graphwright", "graphwright_plugins"})
_NOT_LOOKED_INTO = (
    *TORCH_INTERNALS,
    "abc", "ast", "asyncio", "concurrent", "ctypes", "datetime", "gc", "importlib", "io", "json",
    "linecache", "logging", "multiprocessing", "os", "pathlib", "pdb", "pickle", "posixpath", "random", "re",
    "selectors", "shutil", "signal", "socket", "subprocess", "tempfile", "threading", "time", "tokenize", "traceback",
    "unittest", "warnings", "weakref", "numpy", "torch.fx", "torch.jit", "torch.distributed", "torch.export",
    "torch.multiprocessing", "torch.profiler", "torch.hub", "torch.serialization", "torch.testing", "torch.cuda",
    "graphwright", "rich", "pytest", "_pytest", "tqdm", "sympy",
)  # fmt: skip


def is_trusted_module(name: object) -> bool:
    """Whether what a module holds is taken not to change after import, so that it needs no guard."""
    if not isinstance(name, str) or not name:  # a class may have anything for its `__module__`
        return False
    root = name.partition(".")[0]
    return root in _TRUSTED_ROOTS or (root in sys.stdlib_module_names and root not in ("__main__", "test"))


def is_trusted_class(cls: type) -> bool:
    """Whether the attributes of a class are taken not to change."""
    return is_trusted_module(getattr(cls, "__module__", None))


def is_looked_into(module_name: str | None) -> bool:
    """Whether functions of a module may be inlined; others are called by the interpreter, after a graph break."""
    if not module_name or module_name.startswith("graphwright.builtin_calls."):
        return True
    return not any(module_name == m or module_name.startswith(m + ".") for m in _NOT_LOOKED_INTO)
