"""Builds the C extension; everything else is in pyproject.toml."""

import platform
from pathlib import Path

from setuptools import Extension, setup

SOURCES = sorted(str(path.relative_to(Path(__file__).parent)) for path in (Path(__file__).parent / "csrc").glob("*.c"))

# Thread-local state is read on every call: descriptors make that a few instructions instead of a library call.
TLS_FLAGS = ["-mtls-dialect=gnu2"] if platform.machine() == "x86_64" and platform.system() == "Linux" else []

setup(
    ext_modules=[
        Extension(
            "graphwright._native",
            sources=SOURCES,
            depends=["csrc/native.h", "csrc/frame_compat.h"],
            extra_compile_args=[
                "-O2",
                "-std=gnu11",
                "-Wall",
                "-Wextra",
                "-Wno-missing-field-initializers",
                "-fno-strict-aliasing",
                "-fvisibility=hidden",
                *TLS_FLAGS,
            ],
            libraries=["dl"] if platform.system() == "Linux" else [],
        )
    ]
)
