from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from graphwright import _native, config
from graphwright.cache_key import intern_key
from graphwright.compiler import CompileSpec, make_compiler
from graphwright.exc import InternalError
from graphwright_plugins import resolve_backend


def a_backend(gm: Any, example_inputs: Any) -> Callable[..., Any]:
    return gm.forward  # type: ignore[no-any-return]


class Owner:
    def compile_graph(self, gm: Any, example_inputs: Any) -> Callable[..., Any]:
        return gm.forward  # type: ignore[no-any-return]


def test_same_backend_same_key() -> None:
    owner = Owner()
    for backend in ("eager", a_backend, owner.compile_graph):
        first, second = make_compiler(CompileSpec(backend)), make_compiler(CompileSpec(backend))
        assert first.key is second.key


def test_anything_else_is_another_key() -> None:
    specs = [
        CompileSpec("eager"),
        CompileSpec("aot_eager"),
        CompileSpec(a_backend),
        CompileSpec(lambda gm, inputs: gm.forward),
        CompileSpec("eager", fullgraph=True),
        CompileSpec("eager", dynamic=True),
        CompileSpec("eager", dynamic=False),
    ]
    compilers = list(map(make_compiler, specs))
    assert len({id(compiler.key) for compiler in compilers}) == len(specs)


def test_key_knows_backend_and_settings() -> None:
    compiler = make_compiler(CompileSpec("eager", fullgraph=True))
    key = compiler.key
    assert (key.backend.name, key.fullgraph, key.dynamic) == ("eager", True, None)
    with config.patch(recompile_limit=3):
        assert key.settings.recompile_limit == 3
    assert repr(key) == "CacheKey(backend='eager', fullgraph=True, dynamic=None)"


def test_key_keeps_no_backend_alive() -> None:
    def backend(gm: Any, example_inputs: Any) -> Callable[..., Any]:
        return gm.forward  # type: ignore[no-any-return]

    gone = weakref.ref(backend)
    key, resolved = intern_key(resolve_backend(backend))
    assert key.backend is resolved
    del backend, resolved
    gc.collect()
    assert gone() is None
    with pytest.raises(InternalError, match="is gone"):
        key.backend


def test_compiled_function_keeps_its_backend() -> None:
    compiled = _compile_with_local_backend(lambda x: x)
    gc.collect()
    assert compiled(1) == 1


def _compile_with_local_backend(fn: Callable[..., Any]) -> Callable[..., Any]:
    def backend(gm: Any, example_inputs: Any) -> Callable[..., Any]:
        return gm.forward  # type: ignore[no-any-return]

    return make_compiler(CompileSpec(backend)).compile(fn)  # type: ignore[no-any-return]


def test_key_in_a_code_object_serves_the_next_compile() -> None:
    def fn(x: int) -> int:
        return x

    first = make_compiler(CompileSpec(a_backend))
    _native.mark(fn.__code__, first.key, _native.SKIP)
    index = id(first.key)
    del first
    gc.collect()
    assert id(make_compiler(CompileSpec(a_backend)).key) == index
