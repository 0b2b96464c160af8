"""Every private name of torch that the contract uses, and nothing else imports one.

Tried with torch 2.13 only. When a torch release moves a name, this is the file to change.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import torch
from torch import fx
from torch._decomp import core_aten_decompositions
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.fx.graph import _BoxedCodeGen
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "DATA_DEPENDENT_ERRORS",
    "TORCH_VERSION",
    "FakeTensorMode",
    "TorchDispatchMode",
    "aot_module_simplified",
    "as_fake",
    "as_symbolic",
    "asks_for_another_try",
    "core_aten_decompositions",
    "fake_mode_of",
    "inductor_backend",
    "inductor_option_names",
    "is_boxed",
    "is_builtin_torch_backend",
    "list_torch_backends",
    "lookup_torch_backend",
    "mark_boxed",
    "new_fake_mode",
    "partition_functions",
    "tracing_context",
    "use_boxed_calls",
]

DATA_DEPENDENT_ERRORS: tuple[type[BaseException], ...] = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)
"""What fake tensors raise when an operation needs the values they do not have."""
_RESTARTS = frozenset({"RestartAnalysis", "TensorifyScalarRestartAnalysis"})
TORCH_VERSION: Final = str(torch.__version__)
"""The version of the torch that is installed."""


def asks_for_another_try(error: BaseException) -> bool:
    """Whether torch's compilers ask for the program to be captured anew, with other things symbolic."""
    return not _RESTARTS.isdisjoint(kind.__name__ for kind in type(error).__mro__)


def new_fake_mode() -> FakeTensorMode:
    """A fake tensor mode with a shape environment of its own."""
    return FakeTensorMode(shape_env=ShapeEnv())


def fake_mode_of(inputs: Sequence[Any]) -> FakeTensorMode | None:
    """The fake mode of the tracing context or of the inputs, or None when all inputs are real."""
    return detect_fake_mode(list(inputs))


@contextlib.contextmanager
def tracing_context(fake_mode: FakeTensorMode) -> Iterator[None]:
    """Run inside the present tracing context, or inside a new one for this fake mode where there is none."""
    if TracingContext.try_get() is not None:
        yield
        return
    with tracing(TracingContext(fake_mode)):
        yield


def as_fake(fake_mode: FakeTensorMode, value: Any) -> Any:
    """A fake stand-in of fixed sizes for a real tensor; anything else as it is."""
    if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
        return fake_mode.from_tensor(value, static_shapes=True)
    return value


def as_symbolic(fake_mode: FakeTensorMode, tensor: torch.Tensor, dynamic_dims: Sequence[int]) -> torch.Tensor:
    """A fake stand-in whose given dimensions are symbolic."""
    sizes = [DimDynamic.DYNAMIC if dim in dynamic_dims else DimDynamic.STATIC for dim in range(tensor.dim())]
    context: StatelessSymbolicContext[Any, Any] = StatelessSymbolicContext(dynamic_sizes=sizes)
    return fake_mode.from_tensor(tensor, symbolic_context=context)


def aot_module_simplified(graph: fx.GraphModule, example_inputs: Sequence[Any], **keywords: Any) -> Callable[..., Any]:
    """Torch's function of this name."""
    module = _import_late("torch._functorch.aot_autograd")
    return cast(Callable[..., Any], module.aot_module_simplified(graph, example_inputs, **keywords))


def partition_functions() -> dict[str, Callable[..., Any]]:
    """AOTAutograd's partitioners by our names for them."""
    module = _import_late("torch._functorch.partitioners")
    return {"default": module.default_partition, "min_cut": module.min_cut_rematerialization_partition}


def mark_boxed(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Mark a function that takes one list of arguments and may empty it, as AOTAutograd prefers."""
    function._boxed_call = True  # type: ignore[attr-defined]  # torch's mark, on a function
    return function


def is_boxed(function: Callable[..., Any]) -> bool:
    """Whether the function takes one list of arguments."""
    return bool(getattr(function, "_boxed_call", False))


def use_boxed_calls(graph: fx.GraphModule) -> None:
    """Make the graph's forward take one list, which it empties, so that inputs are freed when last used."""
    graph.graph.set_codegen(_BoxedCodeGen())
    graph.recompile()


def list_torch_backends() -> list[str]:
    """Names that torch.compile knows without an entry point or with one. Imports torch._dynamo."""
    return cast(list[str], _torch_registry().list_backends(exclude_tags=None))


def lookup_torch_backend(name: str) -> Callable[..., Any]:
    """The compiler function behind one of torch.compile's names. Imports torch._dynamo."""
    return cast(Callable[..., Any], _torch_registry().lookup_backend(name))


def is_builtin_torch_backend(name: str) -> bool:
    """Whether torch itself, and no entry point or program, registered this name. Imports torch._dynamo."""
    registry = _torch_registry()
    registry.list_backends()  # fills the table
    function = registry._COMPILER_FNS.get(name)
    return str(getattr(function, "__module__", "")).partition(".")[0] == "torch"


def inductor_option_names() -> list[str]:
    """Names of Inductor's settings. Imports torch._inductor."""
    return list(_import_late("torch._inductor.config").get_config_copy())


def inductor_backend(mode: str | None, options: Mapping[str, Any] | None) -> Callable[..., Any]:
    """Inductor with options and mode checked and applied as torch.compile does it."""
    wrapper: Callable[..., Callable[..., Any]] = torch._TorchCompileInductorWrapper
    return wrapper(mode, dict(options or {}), None)


def _torch_registry() -> Any:
    return _import_late("torch._dynamo.backends.registry")


def _import_late(module: str) -> Any:
    # These import all of torch._dynamo, which takes seconds, and most programs never come here.
    return importlib.import_module(module)


def forget_fresh_symbols(fake_mode: FakeTensorMode) -> None:
    """Drop the symbols that a trial run on fakes made for sizes that depend on values: nothing refers to them."""
    if fake_mode.shape_env is not None:
        fake_mode.shape_env.pending_fresh_unbacked_symbols.clear()
