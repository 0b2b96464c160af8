"""Every private name of torch that this backend uses, and nothing else imports one.

Tried with torch 2.13 only. When a torch release moves a name, this is the file to change.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, cast

from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._sympy.symbol import SymT, symbol_is_type

from graphwright_plugins import NotCacheable

__all__ = [
    "FakeTensorMode",
    "collecting_output_code",
    "compile_fx",
    "compiler_version",
    "cxx_names",
    "floats_in_tensors",
    "free_cuda_graphs",
    "function_settings",
    "inductor_option_names",
    "inductor_option_type",
    "inductor_settings",
    "is_told_by_compiler",
    "kernels_from_bytes",
    "kernels_to_bytes",
    "saveable",
    "system_parts",
]

_collector: Final[ContextVar[Callable[[str], None] | None]] = ContextVar("graphwright_output_code", default=None)


def inductor_option_names() -> list[str]:
    """Names of Inductor's settings. Imports torch._inductor."""
    return list(_import_late("torch._inductor.config").get_config_copy())


def inductor_option_type(name: str) -> Any:
    """How torch annotates one of Inductor's settings; the class of its default where it doesn't."""
    return _import_late("torch._inductor.config").get_type(name)


def cxx_names(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The C++ compilers that Inductor tries, under settings given beside its own."""
    names = config.get("cpp.cxx", _import_late("torch._inductor.config").cpp.cxx)
    return tuple(name for name in (names if isinstance(names, (list, tuple)) else (names,)) if name)


def compile_fx(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    config: Mapping[str, Any],
    show_code: Callable[[str, str], None],
    show_graph: Callable[[str, fx.GraphModule], None],
    explain: Callable[[Exception], Exception | None],
) -> Callable[..., Any]:
    """Compile a graph by Inductor.

    Args:
        graph: The graph, which Inductor may change.
        example_inputs: Fakes, numbers and symbolic ints.
        config: Inductor's settings, for the backward graph too, which may be compiled later.
        show_code: Called for each graph compiled, with what it is and the generated source.
        show_graph: Called with what it is, and the graph of operators, before that is compiled.
        explain: Called with what Inductor raises; gives what is raised in its place, from it, or None.
    """
    _compile_in_forks_too()
    module = _import_late("torch._inductor.compile_fx")
    inner: Callable[..., Any] = module.compile_fx_inner

    def compile_inner(*args: Any, **keywords: Any) -> Any:
        part = "backward graph" if keywords.get("is_backward", False) else "forward graph"
        show_graph(part, args[0])
        with collecting_output_code(functools.partial(show_code, part)):
            try:
                return inner(*args, **keywords)
            except Exception as error:
                explained = explain(error) if is_told_by_compiler(error) else None
                if explained is None:
                    raise
                raise explained from error

    # What comes whole from the cache of AOTAutograd never meets `compile_inner`.
    with collecting_output_code(functools.partial(show_code, "graph from the cache")):
        compiled = module.compile_fx(graph, example_inputs, inner_compile=compile_inner, config_patches=dict(config))
    return cast(Callable[..., Any], compiled)


@functools.cache
def _compile_in_forks_too() -> None:
    """Have processes forked from this one start threads of their own to compile with; torch waits for those here."""
    os.register_at_fork(after_in_child=_forget_threads)


def _forget_threads() -> None:
    module: Any = sys.modules.get("torch._inductor.async_compile")
    if module is not None:
        module.AsyncCompile.pool.cache_clear()


@contextlib.contextmanager
def collecting_output_code(collect: Callable[[str], None]) -> Iterator[None]:
    """Hand over what Inductor generates in this block, or takes from its cache."""
    _watch_output_code()
    token = _collector.set(collect)
    try:
        yield
    finally:
        _collector.reset(token)


def _watch_output_code() -> None:
    """Put ourselves behind Inductor's hook for generated code, once; outside of our blocks it does as before."""
    lowering: Any = _import_late("torch._inductor.graph").GraphLowering
    before = lowering.save_output_code
    if getattr(before, "belongs_to_graphwright", False):
        return

    def save(text: str) -> None:
        if before is not None:
            before(text)
        collect = _collector.get()
        if collect is not None:
            collect(text)

    save.belongs_to_graphwright = True  # type: ignore[attr-defined]  # a mark on a function
    lowering.save_output_code = staticmethod(save)


@contextlib.contextmanager
def floats_in_tensors(fake_mode: FakeTensorMode, example_inputs: Sequence[Any]) -> Iterator[None]:
    """Let a graph read floats from fake tensors, each as a symbol that stands for whatever it will be.

    Where the caller's shape environment has symbols for floats, torch would ask Dynamo to begin again without them.
    Here no graph has such a symbol any more, so torch is told that they are constants; not so those that the caller has
    in tensors already, as torch.compile does.
    """
    env = fake_mode.shape_env
    names = {str(symbol) for symbol in env.backed_var_to_val if symbol_is_type(symbol, SymT.FLOAT)} if env else set()
    names -= {str(value.item_memo) for value in example_inputs if isinstance(value, FakeTensor)}
    if env is None or not names:
        yield
        return
    constants: set[str] = _import_late("torch._dynamo.symbolic_convert").TensorifyState.force_specializations
    added, settings = names - constants, env.settings
    constants.update(added)
    env.settings = dataclasses.replace(settings, allow_scalar_outputs=True)
    try:
        yield
    finally:
        env.settings = settings
        constants.difference_update(added)


def is_told_by_compiler(error: Exception) -> bool:
    """Whether Inductor, or Dynamo for it, raised an error; AOTAutograd, which lies between, raises any other."""
    return isinstance(error, _import_late("torch._dynamo.exc").TorchDynamoException)


@contextlib.contextmanager
def saveable(find_others: bool) -> Iterator[None]:
    """Have what is compiled in this block be such that `kernels_to_bytes` can write it.

    It does what `torch._inductor.standalone_compile` does. That, where a graph can't be written, raises and drops
    what it compiled, which can still be used.

    Args:
        find_others: Whether torch may take it from its own disk cache.
    """
    compiler = _import_late("torch.compiler.config")
    tag = compiler.cache_key_tag + ("" if find_others else f" {uuid.uuid4()}")
    manager: Any = _import_late("torch.compiler._cache").CacheArtifactManager
    inductor, functorch = _import_late("torch._inductor.config"), _import_late("torch._functorch.config")
    with (
        manager.with_fresh_cache(),
        compiler.patch(cache_key_tag=tag),
        inductor.patch("triton.autotune_at_compile_time", True),
        # Bundled: with the kernels in it, not referring to files. Not lazy: with the backward graph.
        functorch.patch({"bundled_autograd_cache": True, "force_non_lazy_backward_lowering": True}),
    ):
        yield


def kernels_to_bytes(compiled: Callable[..., Any]) -> bytes:
    """A function that `compile_fx` returned in a block of `saveable`.

    Raises:
        NotCacheable: AOTAutograd or Inductor can't write this one.
    """
    if getattr(compiled, "serialize", None) is None:
        raise NotCacheable(
            "AOTAutograd or Inductor can't write it down, "
            "and TORCH_LOGS=+torch._functorch._aot_autograd.autograd_cache tells why"
        )
    writer: Any = _import_late("torch._dynamo.aot_compile_types").BundledAOTAutogradSerializableCallable
    return cast(bytes, writer.serialize_compile_artifacts(writer(compiled)))


def kernels_from_bytes(data: bytes, config: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that `kernels_to_bytes` wrote, under the settings that it was compiled with."""
    reader: Any = _import_late("torch._dynamo.aot_compile_types").BundledAOTAutogradSerializableCallable
    _import_late("torch._inductor.compile_fx")  # fills tables that loading looks into
    with _import_late("torch._inductor.config").patch({**config, "triton.cudagraphs": False}):
        return cast(Callable[..., Any], reader.deserialize_compile_artifacts(data).compiled_fn)


def free_cuda_graphs() -> None:
    """Free what Inductor recorded as CUDA graphs in this thread."""
    trees = sys.modules.get("torch._inductor.cudagraph_trees")  # imported when something was recorded
    if trees is not None:
        trees.reset_cudagraph_trees()


def inductor_settings() -> dict[str, Any]:
    """The settings of Inductor and AOTAutograd that what they make depends on, by name."""
    _import_late("torch._inductor.compile_fx")  # it changes some
    functorch = _import_late("torch._functorch.config").save_config_portable()
    settings: dict[str, Any] = _import_late("torch._inductor.config").save_config_portable()
    return {**settings, **{f"functorch.{name}": value for name, value in functorch.items()}}


def function_settings() -> dict[str, Any]:
    """All settings that could be functions: passes of the program's own."""
    modules = ("torch._inductor.config", "torch._functorch.config")
    copies: list[dict[str, Any]] = [_import_late(name).get_config_copy() for name in modules]
    return {name: value for copy in copies for name, value in copy.items() if "custom" in name or "pass" in name}


def system_parts() -> dict[str, str]:
    """Torch's own sources, and the processor and GPU that kernels are made for."""
    cache = _import_late("torch._inductor.codecache")
    isa = _import_late("torch._inductor.cpu_vec_isa")
    return {
        "torch_sources": cache.torch_key().hex(),
        "gpu": str(cache.CacheBase.get_system()["hash"]),
        "vector_instructions": str(isa.pick_vec_isa()),
    }


@functools.cache
def compiler_version(name: str) -> str:
    """What the C++ compiler says of itself."""
    builder = _import_late("torch._inductor.cpp_builder")
    return cast(str, builder.get_compiler_version_info(name))


def _import_late(module: str) -> Any:
    # These import all of torch._dynamo and Inductor, which takes seconds; listing backends must not.
    return importlib.import_module(module)
