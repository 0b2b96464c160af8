"""Every private name of torch that the contract uses, and nothing else imports one.

Tried with torch 2.13 only. When a torch release moves a name, this is the file to change.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
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
    UnsupportedOperatorException,
    unset_fake_temporarily,
)
from torch.fx.experimental.symbolic_shapes import (
    SYMPY_INTERP,
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.fx.graph import _BoxedCodeGen
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.symbol import SymT, symbol_is_type

__all__ = [
    "ATTENTION_KERNELS",
    "BEYOND_FAKES",
    "DATA_DEPENDENT_ERRORS",
    "FUNCTION_HOMES",
    "TORCH_VERSION",
    "TRACE_LOGGER",
    "AotPlace",
    "FakeTensor",
    "FakeTensorMode",
    "TorchDispatchMode",
    "aot_module_simplified",
    "aot_place",
    "aot_places_of_outputs",
    "as_fake",
    "as_symbolic",
    "asks_for_another_try",
    "assumptions_from",
    "assumptions_of",
    "backward_as_in_eager",
    "core_aten_decompositions",
    "count_assumptions",
    "count_of_assumptions",
    "decomposable_operators",
    "decompositions_by_name",
    "evaluate_sizes",
    "expression_of",
    "fake_mode_of",
    "fills_uninitialized_memory",
    "graph_caches_off",
    "has_unbacked_symbols",
    "has_version",
    "hint_of",
    "inductor_backend",
    "inductor_option_names",
    "is_boxed",
    "is_builtin_torch_backend",
    "is_one_of_several_views",
    "is_operator",
    "is_torch_function",
    "list_torch_backends",
    "lookup_torch_backend",
    "mark_boxed",
    "new_fake_mode",
    "no_tracing_context",
    "number_range",
    "operator_by_name",
    "operator_name",
    "operator_text",
    "outside_fake_mode",
    "outside_tracing",
    "partition_functions",
    "plausible_value",
    "python_text",
    "real_tensors_allowed",
    "set_grad_enabled",
    "shape_env_of",
    "shape_env_of_inputs",
    "size_operator",
    "torch_build",
    "tracing_context",
    "use_boxed_calls",
]

set_grad_enabled = torch._C._set_grad_enabled
"""The setter behind `torch.no_grad` and `torch.set_grad_enabled`; a function of one bool, as graphs hold it."""
ATTENTION_KERNELS: tuple[tuple[Callable[[], bool], Callable[[bool], None]], ...] = tuple(
    (getattr(torch._C, f"_get_{kernel}_sdp_enabled"), getattr(torch._C, f"_set_sdp_use_{kernel}"))
    for kernel in ("flash", "mem_efficient", "math", "cudnn", "overrideable")
)
"""For each kernel of scaled dot product attention: whether it is allowed, and what allows or forbids it."""
DATA_DEPENDENT_ERRORS: tuple[type[BaseException], ...] = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)
"""What fake tensors raise when an operation needs the values they do not have."""
BEYOND_FAKES: tuple[type[BaseException], ...] = (
    *DATA_DEPENDENT_ERRORS,
    UnsupportedOperatorException,
    NotImplementedError,
)
"""What fake tensors raise of operations that tensors with values may well do."""
_RESTARTS = frozenset({"RestartAnalysis", "TensorifyScalarRestartAnalysis"})
_PLAUSIBLE_SIZE: Final = 4
TRACE_LOGGER: Final = "torch.__trace"
"""The logger of torch's trace of what is compiled, which only torch's own tools read."""
_TENSORS_OF_FLOATS: Final = "TENSORIFY_PYTHON_SCALARS"
"""The environment variable that torch asks for this."""
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
    """A fake stand-in for a real tensor; anything else as it is.

    Its sizes are fixed, unless whoever made the tracing context noted which of them vary, as torch.compile does.
    """
    if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
        return value
    context = TracingContext.try_get()
    noted = context.tensor_to_context.get(value) if context is not None and context.fake_mode is fake_mode else None
    if noted is None:
        return fake_mode.from_tensor(value, static_shapes=True)
    return fake_mode.from_tensor(value, symbolic_context=noted, source=noted.tensor_source)


def as_symbolic(fake_mode: FakeTensorMode, tensor: torch.Tensor, dynamic_dims: Sequence[int]) -> torch.Tensor:
    """A fake stand-in whose given dimensions are symbolic."""
    sizes = [DimDynamic.DYNAMIC if dim in dynamic_dims else DimDynamic.STATIC for dim in range(tensor.dim())]
    context: StatelessSymbolicContext[Any, Any] = StatelessSymbolicContext(dynamic_sizes=sizes)
    return fake_mode.from_tensor(tensor, symbolic_context=context)


def aot_module_simplified(graph: fx.GraphModule, example_inputs: Sequence[Any], **keywords: Any) -> Callable[..., Any]:
    """Torch's function of this name."""
    module = _import_late("torch._functorch.aot_autograd")
    return cast(Callable[..., Any], module.aot_module_simplified(graph, example_inputs, **keywords))


@contextlib.contextmanager
def backward_as_in_eager() -> Iterator[None]:
    """Have AOTAutograd, and what compiles for it, make backward graphs that do as eager's backward does.

    Saved tensors stay as they are: by default torch lets kernels write into them, and refuses
    `backward(retain_graph=True)` then. And autocast is off in a backward, as it is where a program calls `backward`
    outside of it, and not what it was in the forward, which would round gradients of what was computed without it.
    """
    with _import_late("torch._functorch.config").patch(donated_buffer=False, backward_pass_autocast="off"):
        yield
    context = TracingContext.try_get()
    if context is not None and context.fw_metadata is not None:
        context.fw_metadata.bw_donated_idxs = []  # None means "not known", which is refused as well


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


@contextlib.contextmanager
def real_tensors_allowed(fake_mode: FakeTensorMode) -> Iterator[None]:
    """Have operations on fakes take real tensors beside them, as those that a module holds; they aren't written to."""
    before = fake_mode.allow_non_fake_inputs
    fake_mode.allow_non_fake_inputs = True
    try:
        yield
    finally:
        fake_mode.allow_non_fake_inputs = before


def forget_fresh_symbols(fake_mode: FakeTensorMode) -> None:
    """Drop the symbols that a trial run on fakes made for sizes that depend on values: nothing refers to them."""
    if fake_mode.shape_env is not None:
        fake_mode.shape_env.pending_fresh_unbacked_symbols.clear()


def expression_of(number: Any) -> Any:
    """The sympy expression of a symbolic number, with what is known of its symbols by now put in."""
    return number.node.expr


def shape_env_of(number: Any) -> ShapeEnv | None:
    """The shape environment that a symbolic number's symbols belong to."""
    return cast("ShapeEnv | None", getattr(number.node, "shape_env", None))


def number_range(number: Any) -> tuple[int | float | None, int | float | None]:
    """The least and the greatest value that a symbolic number may have; None for no limit."""
    env = shape_env_of(number)
    if env is None:
        return None, None
    bounds = env.bound_sympy(expression_of(number))
    return _limit(bounds.lower), _limit(bounds.upper)


def _limit(bound: Any) -> int | float | None:
    if getattr(bound, "is_Integer", False):
        return int(bound) if abs(int(bound)) < sys.maxsize - 1 else None
    return float(bound) if getattr(bound, "is_Float", False) and bound.is_finite else None


def assumptions_of(env: ShapeEnv) -> list[Any]:
    """What was assumed of symbols, as sympy expressions."""
    found = (env.simplify(guard.expr) for guard in env.guards)
    return [expr for expr in found if expr.free_symbols]


def is_operator(target: object) -> bool:
    """Whether a node's target is an operator of torch's dispatcher, or a higher-order one."""
    return isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator))


def is_torch_function(target: object) -> bool:
    """Whether a function is one of those that torch defines in C and offers as `torch.<name>`."""
    return getattr(torch._C._VariableFunctions, getattr(target, "__name__", ""), None) is target


def operator_text(target: Any) -> str:
    """The operator's name and schema."""
    schema = getattr(target, "_schema", None)
    return f"{target}: {schema}" if schema is not None else f"operator {target}"


@dataclass(frozen=True)
class AotPlace:
    """What AOTAutograd says of an input or output of a graph that it made."""

    kind: str
    """`input`, `tangent`, `rng_state`, `token`; `output`, `mutation`, `gradient`, `saved`; `other` for what is new."""
    index: int = -1
    """Which input or output of the captured graph is meant."""
    of: AotPlace | None = None
    """The output that a tangent belongs to."""


def aot_place(node: fx.Node) -> AotPlace:
    """What a placeholder of a graph of AOTAutograd's is."""
    return _aot_place(node.meta.get("desc"))


def aot_places_of_outputs(graph: fx.GraphModule) -> list[AotPlace]:
    """What the outputs of a graph of AOTAutograd's are."""
    output = graph.graph.output_node()
    results: Any = output.args[0]
    told = output.meta.get("desc") or [None] * len(results)
    return [_aot_place(description) for description in told]


def _aot_place(description: Any) -> AotPlace:
    name = type(description).__name__
    if name in ("PlainAOTInput", "PlainAOTOutput"):
        return AotPlace("input" if name == "PlainAOTInput" else "output", description.idx)
    if name == "TangentAOTInput":
        return AotPlace("tangent", of=_aot_place(description.output))
    if name == "InputMutationAOTOutput":
        return AotPlace("mutation", _aot_place(description.mutated_input).index)
    if name == "GradAOTOutput":
        return AotPlace("gradient", _aot_place(description.grad_of).index)
    if name.startswith("SavedForBackwards"):
        return AotPlace("saved")
    if "Philox" in name:
        return AotPlace("rng_state")
    return AotPlace("token" if "Token" in name else "other")


def has_unbacked_symbols(env: ShapeEnv) -> bool:
    """Whether there are, or were, sizes or numbers that depend on the values of tensors."""
    return bool(env.unbacked_symint_counter or env.unbacked_symfloat_counter or env.deferred_runtime_asserts)


def count_assumptions(env: ShapeEnv) -> int:
    """How much was assumed of symbols so far; see `assumptions_from`."""
    return len(env.guards)


def assumptions_from(env: ShapeEnv, start: int) -> list[Any]:
    """What was assumed of symbols since `count_assumptions` gave this number, as sympy expressions, in order."""
    return [guard.expr for guard in env.guards[start:]]


def hint_of(number: Any) -> int | float | None:
    """The value that a symbolic number has in the call that is compiled for; None where that isn't known."""
    return cast("int | float | None", number.node.hint)


def python_text(expression: Any, names: Mapping[Any, str]) -> str:
    """A sympy expression as Python that `evaluate_sizes` takes, its symbols by other names."""
    renamed = {symbol: type(symbol)(name, **symbol.assumptions0) for symbol, name in names.items()}
    return str(PythonPrinter().doprint(expression.xreplace(renamed)))


def evaluate_sizes(text: str, values: Mapping[str, Any]) -> bool:
    """What an expression of `python_text` says of numbers, given by name; of symbolic ones it becomes a guard."""
    return bool(eval(text, dict(SYMPY_INTERP), dict(values)))


def torch_build() -> str:
    """What torch was built for and runs on: processor, CUDA, ROCm."""
    return f"{platform.machine()} cuda {torch.version.cuda} hip {torch.version.hip} {torch.version.git_version}"


def decompositions_by_name(names: Iterable[str]) -> dict[Any, Callable[..., Any]]:
    """Torch's decompositions of operators, by name, with or without that of an overload.

    Raises:
        ValueError: There is no decomposition for one of them.
    """
    table: dict[Any, Callable[..., Any]] = {}
    known = torch._decomp.decomposition_table
    for name in names:
        found = {op: known[op] for op in known if name in (str(op), str(op).rpartition(".")[0])}
        if not found:
            raise ValueError(f"torch has no decomposition for {name!r}; operators are named like 'aten.gelu.default'")
        table |= found
    return table


def decomposable_operators() -> set[str]:
    """The operators that torch has decompositions for, by name without that of an overload."""
    return {str(op).rpartition(".")[0] for op in torch._decomp.decomposition_table}


def plausible_value(number: Any) -> int | float | bool:
    """What a symbolic number is in the call that is compiled for, or may well be where that isn't known."""
    if number.node.has_hint():
        return cast("int | float | bool", number.node.hint)
    env, expr = shape_env_of(number), expression_of(number)
    chosen: dict[Any, int | float] = {}
    for symbol in expr.free_symbols:
        bounds = None if env is None else env.var_to_range.get(symbol)
        least = _limit(bounds.lower) if bounds is not None else None
        most = _limit(bounds.upper) if bounds is not None else None
        value = max(_PLAUSIBLE_SIZE, least) if least is not None else _PLAUSIBLE_SIZE
        chosen[symbol] = value if most is None else min(value, most)
    result = expr.subs(chosen)
    return float(result) if isinstance(number, torch.SymFloat) else int(result)


def is_one_of_several_views(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a view that an operator gave together with others, as `split` does."""
    autograd: Any = torch._C._autograd
    return tensor._is_view() and autograd._get_creation_meta(tensor) == autograd.CreationMeta.MULTI_OUTPUT_NODE


def outside_fake_mode() -> AbstractContextManager[Any]:
    """Have real tensors be real, inside a fake mode that AOTAutograd has entered."""
    return unset_fake_temporarily()


@contextlib.contextmanager
def outside_tracing() -> Iterator[None]:
    """Be outside of any tracing context and fake mode: `torch.load` gives tensors without values inside of one."""
    with outside_fake_mode(), tracing(None):
        yield


def size_operator() -> Any:
    """The operator that reads a size off a tensor."""
    return torch.ops.aten.sym_size.int


def fills_uninitialized_memory() -> bool:
    """Whether deterministic mode fills what `torch.empty` gives."""
    deterministic: Any = torch.utils.deterministic  # its attributes are properties of a module's class
    return bool(deterministic.fill_uninitialized_memory)


def shape_env_of_inputs(inputs: Sequence[Any]) -> ShapeEnv | None:
    """The shape environment of fake inputs; None where there are none."""
    mode = fake_mode_of(inputs)
    return None if mode is None else mode.shape_env


def count_of_assumptions(env: ShapeEnv | None) -> int:
    """How many conditions on sizes have been recorded so far."""
    return 0 if env is None else len(env.guards)


def has_version(tensor: torch.Tensor) -> bool:
    """Whether a tensor counts the changes of its values; those made in inference mode don't."""
    return not tensor.is_inference()


@contextlib.contextmanager
def graph_caches_off() -> Iterator[None]:
    """Have AOTAutograd and Inductor not take graphs from their disk caches, nor put any there.

    Inductor's cache of compiled kernels is another, and works on.
    """
    inductor, functorch = _import_late("torch._inductor.config"), _import_late("torch._functorch.config")
    with inductor.patch("fx_graph_cache", False), functorch.patch("enable_autograd_cache", False):
        yield


FUNCTION_HOMES: Final = ("torch", "torch.nn.functional", "torch._C", "torch._C._nn", "operator", "builtins")
"""Modules in which a function that does not know its own is looked for by name."""


def operator_name(target: object) -> str | None:
    """The name of an operator, `namespace::name.overload`; None for anything else."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target.name())
    if isinstance(target, torch._ops.OpOverloadPacket):
        return f"{target._qualified_op_name}:packet"
    return f"higher_order::{target.name()}" if isinstance(target, torch._ops.HigherOrderOperator) else None


def operator_by_name(name: str) -> Any:
    """The operator of a name that `operator_name` gave; None where there is none."""
    namespace, _, rest = name.removesuffix(":packet").partition("::")
    packet = getattr(getattr(torch.ops, namespace, None), rest.partition(".")[0], None)
    if packet is None or namespace == "higher_order" or name.endswith(":packet"):
        return packet
    return getattr(packet, rest.partition(".")[2] or "default", None)


@contextlib.contextmanager
def no_tracing_context() -> Iterator[None]:
    """Run outside of the present tracing context."""
    with tracing(None):
        yield


def has_hooks(tensor: torch.Tensor) -> bool:
    """Whether something is called with the gradient of a tensor."""
    return bool(tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None))


def is_transformed(tensor: torch.Tensor) -> bool:
    """Whether a tensor stands for others, in a running function transform (`vmap`, `grad`)."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def has_float_symbols(number: torch.SymFloat) -> bool:
    """Whether a symbolic float depends on a float from outside, and not on sizes alone."""
    return any(symbol_is_type(symbol, SymT.FLOAT) for symbol in number.node.expr.free_symbols)


@contextlib.contextmanager
def floats_kept() -> Iterator[None]:
    """Have AOTAutograd leave floats that vary as they are, where it would make tensors of single precision of them.

    The setting is the process's: whoever enters holds the lock for compiling.
    """
    before = os.environ.get(_TENSORS_OF_FLOATS)
    os.environ[_TENSORS_OF_FLOATS] = "0"
    _read_setting_again()
    try:
        yield
    finally:
        if before is None:
            del os.environ[_TENSORS_OF_FLOATS]
        else:
            os.environ[_TENSORS_OF_FLOATS] = before
        _read_setting_again()


def _read_setting_again() -> None:
    """Have torch, which remembers what it has read, look into the environment once more."""
    utils: Any = sys.modules.get("torch._dynamo.utils")  # without it, nothing has been read
    if utils is not None:
        utils._is_tensorify_enabled.cache_clear()
