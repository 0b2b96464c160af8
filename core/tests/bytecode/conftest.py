"""Helpers shared by the tests of decoding and assembling."""

from __future__ import annotations

import builtins
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

import pytest

from graphwright.bytecode import CodeBuilder, argument_count, decode

STANDARD_LIBRARY_SAMPLE = (
    "argparse",
    "ast",
    "asyncio.base_events",
    "asyncio.tasks",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "inspect",
    "json.decoder",
    "pathlib",
    "pickle",
    "statistics",
    "subprocess",
    "tarfile",
    "textwrap",
    "traceback",
    "typing",
    "unittest.mock",
)


def nested_code(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and all code objects in its constants, at any depth."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested_code(constant)


def module_code(name: str) -> CodeType:
    """Compile a module of the standard library from its source."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return compile(Path(spec.origin).read_bytes(), spec.origin, "exec")


def rebuild(code: CodeType) -> CodeType:
    """Assemble a code object anew from its decoded instructions."""
    variadic = 0x04 | 0x08
    builder = CodeBuilder(
        code.co_name,
        code.co_qualname,
        code.co_filename,
        code.co_firstlineno,
        code.co_varnames[: argument_count(code)],
        code.co_freevars,
        code.co_flags & ~variadic,
        cellvars=code.co_cellvars,
    )
    start = builder.new_label("start")
    builder.jump(start)
    builder.splice(decode(code), {0: start})
    return builder.assemble().replace(
        co_flags=code.co_flags,
        co_argcount=code.co_argcount,
        co_posonlyargcount=code.co_posonlyargcount,
        co_kwonlyargcount=code.co_kwonlyargcount,
    )


def rebuild_deeply(code: CodeType) -> CodeType:
    """Assemble a code object anew, and all code objects in its constants too."""
    constants = tuple(rebuild_deeply(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    return rebuild(code.replace(co_consts=constants))


@pytest.fixture(scope="session", params=STANDARD_LIBRARY_SAMPLE)
def library_code(request: pytest.FixtureRequest) -> list[CodeType]:
    """All code objects of one module of the standard library."""
    return list(nested_code(module_code(request.param)))


@pytest.fixture
def to_function() -> Callable[..., FunctionType]:
    """Makes a function of what a builder holds: `to_function(builder, closure=(), name=value, …)`."""

    def make(builder: CodeBuilder, closure: tuple[CellType, ...] = (), **global_names: Any) -> FunctionType:
        namespace = {"__builtins__": builtins, **global_names}
        return FunctionType(builder.assemble(), namespace, None, None, closure or None)

    return make


@pytest.fixture
def new_builder() -> Callable[..., CodeBuilder]:
    """Makes a builder with uninteresting names: `new_builder("x", "y", freevars=…)`."""

    def make(*arguments: str, **options: Any) -> CodeBuilder:
        return CodeBuilder("f", "C.f", "model.py", 12, arguments, **options)

    return make


@pytest.fixture(scope="session")
def rebuilt() -> Callable[[CodeType], CodeType]:
    """Assembles a code object anew from its decoded instructions."""
    return rebuild


@pytest.fixture(scope="session")
def rebuilt_deeply() -> Callable[[CodeType], CodeType]:
    """Assembles a code object and all code objects in its constants anew."""
    return rebuild_deeply


@pytest.fixture(scope="session")
def library_module_code() -> Callable[[str], CodeType]:
    """Compiles a module of the standard library from its source."""
    return module_code
