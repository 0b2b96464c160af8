"""Builds the C extension; everything else is in pyproject.toml."""

import platform
from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent


def files(pattern: str) -> list[str]:
    """Files of csrc/, relative to this one."""
    return sorted(str(path.relative_to(HERE)) for path in (HERE / "csrc").glob(pattern))


# Thread-local state is read on every call: descriptors make that a few instructions instead of a library call.
TLS_FLAGS = ["-mtls-dialect=gnu2"] if platform.machine() == "x86_64" and platform.system() == "Linux" else []

setup(
    ext_modules=[
        Extension(
            "graphwright._native",
            sources=files("*.c"),
            depends=files("*.h"),
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
