"""Whether Inductor can work here: what is missing, and how to get it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Final

import torch

from graphwright_plugins import Unavailable

HOW_TO_GET_A_COMPILER: Final = (
    "Debian and Ubuntu: `apt install g++`; Fedora: `dnf install gcc-c++`; conda: `conda install gxx`; "
    "macOS: `xcode-select --install`"
)
"""Where C++ compilers come from."""


def why_unavailable() -> Unavailable | None:
    """What keeps Inductor from compiling for the devices of this machine, or None.

    Nothing is started or compiled: this is asked each time that a function is compiled.
    """
    return _missing_compiler() or _missing_headers() or _missing_triton()


def compiler_name() -> str:
    """The C++ compiler that Inductor calls."""
    default = {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
    return os.environ.get("CXX") or default


def _missing_compiler() -> Unavailable | None:
    name = compiler_name()
    if shutil.which(name) is not None or os.environ.get("TORCH_INDUCTOR_INSTALL_GXX"):
        return None
    where = ", which the environment variable CXX names," if os.environ.get("CXX") else ""
    return Unavailable(
        f"no C++ compiler: {name!r}{where} is not on the PATH",
        f"Install one ({HOW_TO_GET_A_COMPILER}), or set CXX to the one to use.",
    )


def _missing_headers() -> Unavailable | None:
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if header.exists():
        return None
    return Unavailable(
        f"Python's headers, which compiled kernels include, are missing: there is no {header}",
        "Install them (Debian and Ubuntu: `apt install python3-dev`; Fedora: `dnf install python3-devel`).",
    )


def _missing_triton() -> Unavailable | None:
    """Triton is needed where a GPU can be used: without a GPU and its driver no tensor can be on one."""
    if torch.version.cuda is None or not torch.cuda.is_available():
        return None
    if importlib.util.find_spec("triton") is not None:
        return None
    return Unavailable(
        "there is a CUDA device, and the package `triton`, which makes kernels for it, is not installed",
        "Install it by `pip install triton`, in the version that your torch was built with.",
    )
