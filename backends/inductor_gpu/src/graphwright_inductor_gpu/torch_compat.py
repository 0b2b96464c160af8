"""Every private name of torch that this backend uses, and nothing else imports one.

Tried with torch 2.13 only. When a torch release moves a name, this is the file to change.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, cast

from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._sympy.symbol import SymT, symbol_is_type

__all__ = [
    "FakeTensorMode",
    "collecting_output_code",
    "compile_fx",
    "floats_in_tensors",
    "inductor_option_names",
    "is_told_by_compiler",
]

_collector: Final[ContextVar[Callable[[str], None] | None]] = ContextVar("graphwright_output_code", default=None)


def inductor_option_names() -> list[str]:
    """Names of Inductor's settings. Imports torch._inductor."""
    return list(_import_late("torch._inductor.config").get_config_copy())


def compile_fx(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    config: Mapping[str, Any],
    show_code: Callable[[str, str], None],
) -> Callable[..., Any]:
    """Compile a graph by Inductor.

    Args:
        graph: The graph, which Inductor may change.
        example_inputs: Fakes, numbers and symbolic ints.
        config: Inductor's settings, for the backward graph too, which may be compiled later.
        show_code: Called for each graph compiled, with what it is and the generated source.
    """
    module = _import_late("torch._inductor.compile_fx")
    inner: Callable[..., Any] = module.compile_fx_inner

    def compile_inner(*args: Any, **keywords: Any) -> Any:
        part = "backward graph" if keywords.get("is_backward", False) else "forward graph"
        with collecting_output_code(functools.partial(show_code, part)):
            return inner(*args, **keywords)

    # What comes whole from the cache of AOTAutograd never meets `compile_inner`.
    with collecting_output_code(functools.partial(show_code, "graph from the cache")):
        compiled = module.compile_fx(graph, example_inputs, inner_compile=compile_inner, config_patches=dict(config))
    return cast(Callable[..., Any], compiled)


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
def floats_in_tensors(fake_mode: FakeTensorMode) -> Iterator[None]:
    """Let a graph read floats from fake tensors, each as a symbol that stands for whatever it will be.

    Where the caller's shape environment has symbols for floats, torch would ask Dynamo to begin again without them.
    Here no graph has such a symbol any more, so torch is told that they are constants.
    """
    env = fake_mode.shape_env
    names = {str(symbol) for symbol in env.backed_var_to_val if symbol_is_type(symbol, SymT.FLOAT)} if env else set()
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


def _import_late(module: str) -> Any:
    # These import all of torch._dynamo and Inductor, which takes seconds; listing backends must not.
    return importlib.import_module(module)
