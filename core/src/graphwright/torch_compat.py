"""Every private name of torch that the core uses; nothing else in the core imports one.

Tried with torch 2.13 only. When a torch release moves a name, this is the file to change.
"""

from __future__ import annotations

import contextlib
import dataclasses
import linecache
import os
import re
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, cast

import sympy  # type: ignore[import-untyped]
import torch
import torch._jit_internal
import torch._utils
import torch.compiler
import torch.fx.graph_module as torch_graph_module
import torch.overrides
import torch.utils.checkpoint
from torch._dispatch.python import enable_python_dispatcher as python_decompositions
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._guards import GuardSource, TracingContext, tracing
from torch._guards import Source as TorchSource
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch._library.custom_ops import CustomOpDef
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorConverter,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    unset_fake_temporarily,
)
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    RelaxedUnspecConstraint,
    ShapeEnv,
    StatefulSymbolicContext,
    StatelessSymbolicContext,
    StrictMinMaxConstraint,
    compute_unbacked_bindings,
    expect_true,
    free_unbacked_symbols,
)
from torch.utils import _device, _python_dispatch
from torch.utils._sympy import functions as sympy_functions
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from graphwright_plugins.graphs.float_arithmetic import SymbolicFloatsRefused

__all__ = [
    "DATA_DEPENDENT_ERRORS",
    "UNSUPPORTED_FAKE_ERRORS",
    "CustomOpDef",
    "FakeTensor",
    "FakeTensorConverter",
    "FakeTensorMode",
    "HigherOrderOperator",
    "NotingFakeMode",
    "OpOverload",
    "OpOverloadPacket",
    "ShapeEnv",
    "TracingContext",
    "call_with_hooks",
    "expect_true",
    "fake_of",
    "forget_source_with",
    "global_backward_hooks",
    "global_forward_hooks",
    "has_constant",
    "instance_attributes",
    "is_functorch_wrapped",
    "is_script_module",
    "is_torch_allowed_in_graph",
    "is_torch_constant_result",
    "is_torch_graph_break",
    "module_call",
    "new_fake_mode",
    "python_decompositions",
    "set_grad_enabled",
    "storage_key",
    "storage_of_innermost",
    "sympy",
    "sympy_functions",
    "tag_activation_checkpoint",
    "tensor_version",
    "torch_disable_mark",
    "torch_stance",
    "torch_substitute",
    "tracing",
]

DATA_DEPENDENT_ERRORS: tuple[type[BaseException], ...] = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)
"""What fake tensors raise when an operation needs the values they do not have."""
UNSUPPORTED_FAKE_ERRORS: tuple[type[BaseException], ...] = (
    UnsupportedOperatorException,
    UnsupportedFakeTensorException,
    NotImplementedError,
)
"""What fake tensors raise when an operation has no rule for them."""

TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
"""Where torch is installed."""
TORCH_INTERNALS: tuple[str, ...] = (
    "torch._dynamo", "torch._export", "torch._functorch", "torch._inductor", "torch._jit_internal", "torch._logging",
)  # fmt: skip
"""Modules of torch's own compilers and logs, which no capture looks into."""
OPERATOR_MODULES: tuple[str, ...] = ("torch", "torch._C", "_operator", "builtins")
"""The `__module__` of functions that are operations and nothing else."""

_MAX_CACHED_FAKE_RESULTS = 2048
"""How many results of fake operations may be cached when a capture begins: torch caches them by argument, for good."""

set_grad_enabled = torch._C._set_grad_enabled
"""The setter behind `torch.no_grad` and `torch.set_grad_enabled`; a function of one bool, as graphs hold it."""


# ---------------------------------------------------------------- checkpoints


def is_signal(error: BaseException) -> bool:
    """Whether torch raised an exception to stop code that it runs again, and not because anything failed."""
    return isinstance(error, torch.utils.checkpoint._StopRecomputationError)


# ---------------------------------------------------------------- graph modules


def forget_source_with(code: CodeType) -> None:
    """Let the source that torch.fx keeps for the code of a graph module go when the code does."""
    forget = weakref.finalize(code, _forget_source, code.co_filename)
    forget.atexit = False


def _forget_source(filename: str) -> None:
    linecache.cache.pop(filename, None)
    torch_graph_module._loader.eval_cache.pop(filename, None)


# ---------------------------------------------------------------- fake tensors


class NotingFakeMode(FakeTensorMode):
    """A fake tensor mode that knows whether random numbers were asked for under it, and which constants still hold."""

    drew_random = False
    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, HigherOrderOperator):  # their rules are found by the exact class of the mode
            rule = func.python_key_table.get(FakeTensorMode)
            if rule is not None and not rule.__qualname__.startswith("redirect_to_mode."):  # that one leads back here
                return rule(self, *args, **(kwargs or {}))
            dispatch: Any = super().__torch_dispatch__
            return dispatch(func, types, args, kwargs)
        if not self.drew_random and torch.Tag.nondeterministic_seeded in func.tags:
            self.drew_random = not _drops_nothing(func, args, kwargs or {})
        arguments = _leaves((*args, *(kwargs or {}).values()))
        # The mode computes with the values of tensors such as `torch.tensor(2)`. Torch 2.13 checks only for symbolic
        # ints that the other arguments have values too, and computes nan of the others.
        if any(isinstance(argument, (torch.SymFloat, torch.SymBool)) for argument in arguments):
            self._forget_constants(arguments)
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _forget_constants(self, arguments: Iterable[Any]) -> None:
        """Compute on metadata alone what is made of these arguments, and of what shares their memory."""
        for argument in arguments:
            if isinstance(argument, FakeTensor) and argument.constant is not None:
                self.fake_tensor_converter.invalidate_constant_aliases(argument.constant)


def _leaves(arguments: Iterable[Any]) -> list[Any]:
    """The arguments of an operator, and the items of those that are lists."""
    return [leaf for item in arguments for leaf in (item if isinstance(item, (list, tuple)) else (item,))]


def _drops_nothing(operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operator that may apply dropout (attention, recurrent layers) is told not to."""
    names = [argument.name for argument in operator._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    probabilities = [given.get(name, 0.0) for name in ("dropout_p", "dropout") if name in names]
    return given.get("train") is False or (bool(probabilities) and probabilities == [0.0] * len(probabilities))


def new_fake_mode(*, values: bool = False, sizes: bool = False) -> NotingFakeMode:
    """A fake tensor mode with a shape environment of its own.

    Args:
        values: whether `Tensor.item` gives a symbol, and not an error.
        sizes: whether operations such as `nonzero` give a size that is a symbol, and not an error.
    """
    if len(FakeTensorMode.cache) > _MAX_CACHED_FAKE_RESULTS:
        FakeTensorMode.cache_clear()
    # Without duck shaping: that two sizes are equal once is no reason to hold them to it.
    shape_env = ShapeEnv(allow_scalar_outputs=values, allow_dynamic_output_shape_ops=sizes, duck_shape=False)
    return NotingFakeMode(shape_env=shape_env)


def fake_of(mode: FakeTensorMode, tensor: torch.Tensor, converter: FakeTensorConverter | None = None) -> torch.Tensor:
    """A fake stand-in of fixed sizes; one converter gives one fake for one tensor, and shares storages."""
    with quiet_grad_access(tensor):
        if converter is None:
            return mode.from_tensor(tensor, static_shapes=True)
        return converter.from_real_tensor(mode, tensor)


# ---------------------------------------------------------------- symbols


@dataclasses.dataclass(frozen=True)
class _NamedSource(TorchSource):
    """What torch knows of where a value came from: a name, for its messages."""

    text: str

    @property
    def guard_source(self) -> GuardSource:  # a cached property there
        return GuardSource.LOCAL

    @property
    def _name_template(self) -> str:
        return self.text


_DIM_KINDS = {"static": DimDynamic.STATIC, "dynamic": DimDynamic.DYNAMIC, "unbacked": DimDynamic.UNBACKED}


def _static_layout(base: torch.Tensor | None) -> StatelessSymbolicContext[Any, Any] | None:
    """No symbols for what a tensor is a view of: nothing is guarded there, and nothing reads it."""
    return None if base is None else StatelessSymbolicContext(dynamic_sizes=[DimDynamic.STATIC] * base.dim())


class SymbolicLayout:
    """How a tensor gets its symbols: fakes made from it any number of times have the same ones.

    Args:
        kinds: for each dimension ``static``, ``dynamic`` or ``unbacked``.
        ranges: least and greatest size of some dimensions; None for no limit.
    """

    def __init__(
        self,
        tensor: torch.Tensor,
        name: str,
        kinds: Sequence[str],
        ranges: Mapping[int, tuple[int | None, int | None]],
    ) -> None:
        constraints: list[Any] = [None] * len(kinds)
        for dim, (least, most) in ranges.items():
            if least is not None or most is not None:
                span: Any = ValueRanges(least or 0, int_oo if most is None else most)
                constraints[dim] = StrictMinMaxConstraint(vr=span, warn_only=False)
            else:
                constraints[dim] = RelaxedUnspecConstraint(warn_only=False)
        self._source = _NamedSource(name)
        self._context = StatefulSymbolicContext(
            dynamic_sizes=[_DIM_KINDS[kind] for kind in kinds],
            constraint_sizes=constraints,
            tensor_source=self._source,
            shape_env_to_source_to_symbol_cache={},
            view_base_context=_static_layout(tensor._base),
        )

    def fake_of(
        self, mode: FakeTensorMode, tensor: torch.Tensor, converter: FakeTensorConverter | None = None
    ) -> torch.Tensor:
        """A fake stand-in with symbols for the sizes that vary."""
        with quiet_grad_access(tensor):
            if converter is None:
                return mode.from_tensor(tensor, source=self._source, symbolic_context=self._context)
            return converter.from_real_tensor(
                mode, tensor, shape_env=mode.shape_env, source=self._source, symbolic_context=self._context
            )


def new_symbolic_number(env: ShapeEnv, value: int | float, name: str) -> torch.SymInt | torch.SymFloat:
    """A symbol for a number from outside, of which nothing is assumed."""
    source = _NamedSource(name)
    symbol = env.create_unspecified_symbol(value, source=source, dynamic_dim=DimDynamic.DYNAMIC)
    make: Any = env.create_symintnode if isinstance(value, int) else env.create_symfloatnode
    return cast(torch.SymInt, make(symbol, hint=value, source=source))


SYMBOLIC_TYPES: tuple[type, ...] = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""Numbers that fake tensors give for sizes."""


def varies(number: object) -> bool:
    """Whether something is a symbolic number. Annotations of torch call sizes ints, which they may not be."""
    return isinstance(number, SYMBOLIC_TYPES)


def expression_of(number: Any) -> Any:
    """The sympy expression of a symbolic number, as it was made; another number as it is."""
    return number.node._expr if varies(number) else number


def simplified(env: ShapeEnv, expr: Any) -> Any:
    """An expression with what is known by now put in."""
    return env.replace(expr) if isinstance(expr, sympy.Basic) else expr


def shape_env_of(mode: FakeTensorMode) -> ShapeEnv:
    """The shape environment of a fake mode."""
    return cast(ShapeEnv, mode.shape_env)


def has_symbols(mode: FakeTensorMode) -> bool:
    """Whether any size or number under a fake mode varies."""
    return bool(shape_env_of(mode).var_to_range)


def value_of(env: ShapeEnv, expr: Any) -> Any:
    """The value of an expression in the call that is captured, an int or a float."""
    if isinstance(expr, sympy.Basic):
        expr = expr.xreplace(env.backed_var_to_val)
    return float(expr) if isinstance(expr, (float, sympy.Float)) else int(expr)


def symbol_range(env: ShapeEnv, symbol: Any) -> tuple[int | None, int | None]:
    """The least and greatest value that a symbol was assumed to have; None for no limit."""
    known = env.var_to_range.get(symbol)
    if known is None:
        return None, None
    least, most = (int(bound) if bound.is_Integer else None for bound in (known.lower, known.upper))
    return (least if least is not None and least > -sys.maxsize else None), (
        most if most is not None and most < sys.maxsize - 1 else None
    )


def assumed_of_symbols(env: ShapeEnv) -> list[Any]:
    """The conditions on symbols that operations and branches asked about, as sympy expressions."""
    found = (env.simplify(guard.expr) for guard in env.guards)
    return [expr for expr in found if expr != sympy.true and not free_unbacked_symbols(expr)]


def assumptions_about(env: ShapeEnv, symbol: Any) -> list[int]:
    """The numbers of the recorded conditions that a symbol occurs in, those that fix it first."""
    found = [(number, guard.expr) for number, guard in enumerate(env.guards) if symbol in guard.expr.free_symbols]
    return [number for number, expr in sorted(found, key=lambda pair: not isinstance(pair[1], sympy.Eq))]


def count_of_assumptions(env: ShapeEnv) -> int:
    """How many conditions have been recorded so far."""
    return len(env.guards)


def bind_fresh_symbols(env: ShapeEnv, node: torch.fx.Node, result: Any) -> None:
    """Note at a node which symbols its result brings into the world, as torch's compilers expect it."""
    bindings = compute_unbacked_bindings(env, result)
    if bindings:
        node.meta["unbacked_bindings"] = bindings


assert_scalar = torch.ops.aten._assert_scalar.default
"""Raises unless a number is true; compilers keep it in their graphs."""
check_condition = torch._check
"""Raises unless a condition holds; of a symbolic one, it is taken to hold."""


def forget_arithmetic(mode: FakeTensorMode) -> None:
    """Empty torch's caches of symbolic arithmetic, which hold the shape environments of some hundred captures."""
    if has_symbols(mode):
        for method in vars(ShapeEnv).values():
            clear = getattr(method, "cache_clear", None)
            if clear is not None:
                clear()


def refuses_symbolic_floats(error: BaseException | None) -> bool:
    """Whether torch's compilers gave up because a graph does with a symbolic float what they cannot do on tensors."""
    return isinstance(error, SymbolicFloatsRefused) or type(error).__name__ == "TensorifyScalarRestartAnalysis"


def is_unbacked(number: Any) -> bool:
    """Whether a symbolic number depends on values that only the graph knows."""
    return bool(free_unbacked_symbols(number))


def _has_leaves_only(tensor: torch.Tensor) -> bool:
    return tensor.is_leaf and (tensor._base is None or tensor._base.is_leaf)


@contextlib.contextmanager
def quiet_grad_access(*tensors: torch.Tensor) -> Iterator[None]:
    """Let torch look at `.grad` of tensors that are no leaves: it hides the warning, but not from `-W error`."""
    if all(_has_leaves_only(tensor) for tensor in tensors):
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The .grad attribute of a Tensor")
        yield


@contextlib.contextmanager
def onednn_off() -> Iterator[None]:
    """Without oneDNN's own kernels on the CPU."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def has_constant(fake: torch.Tensor) -> bool:
    """Whether a fake tensor knows its value."""
    return getattr(fake, "constant", None) is not None


def storage_key(tensor: torch.Tensor) -> int | None:
    """The identity of a tensor's storage, or None for a tensor without one."""
    try:
        return cast(int, tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def tensor_version(tensor: torch.Tensor) -> int:
    """The counter of in-place changes; 0 for inference tensors, which have none."""
    return 0 if tensor.is_inference() else tensor._version


def instance_attributes(tensor: torch.Tensor) -> dict[str, Any]:
    """The Python attributes that a program set on a tensor object."""
    return tensor.__dict__


def storage_of_innermost(tensor: torch.Tensor) -> int | None:
    """The identity of the storage under all the wrappers that function transforms put around a tensor."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return storage_key(tensor)


def transforms_active() -> bool:
    """Whether a function transform is running in this thread."""
    return torch._C._functorch.peek_interpreter_stack() is not None


@contextlib.contextmanager
def outside_transforms() -> Iterator[None]:
    """Outside of all function transforms that are running in this thread."""
    if not transforms_active():
        yield
        return
    with temporarily_clear_interpreter_stack():
        yield


@contextlib.contextmanager
def outside_fake_mode() -> Iterator[None]:
    """Outside of the fake tensor mode of this thread."""
    with unset_fake_temporarily():
        yield


def is_functorch_wrapped(tensor: torch.Tensor) -> bool:
    """Whether a tensor belongs to a running function transform (`vmap`, `grad`, functionalisation)."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor)) or torch._is_functional_tensor(tensor)


# ---------------------------------------------------------------- markers that libraries carry for torch.compile
#
# Only read, and only where torch.compile's own modules are loaded already: who marked something has loaded them.


def _loaded(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, None)


def patched_by_torch_compile(function: FunctionType) -> FunctionType | None:
    """What a method of `nn.Module` was before torch.compile put its own around it, which notes new modules; else None.

    It does so in any process that used it once, for all modules.
    """
    if function.__globals__.get("__name__") != "torch._dynamo.mutation_guard":
        return None
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name in ("init", "setstate") and isinstance(cell.cell_contents, FunctionType):
            return cell.cell_contents
    return None


def torch_disable_mark(function: FunctionType) -> tuple[str | None, bool] | None:
    """Reason and recursiveness where `torch.compiler.disable` or `torch._dynamo.skip` marked a function, else None."""
    attributes = function.__dict__
    if not attributes.get("_torchdynamo_disable"):
        return None
    if attributes.get("_torchdynamo_wrapper_id", id(function)) != id(function):
        return None  # copied by functools.wraps from the function it wraps, which is marked itself
    return attributes.get("_torchdynamo_disable_msg"), bool(attributes.get("_torchdynamo_disable_recursive", False))


def is_torch_allowed_in_graph(function: object) -> bool:
    """Whether `torch.compiler.allow_in_graph` (or `nonstrict_trace`) marked a callable."""
    ids = _loaded("torch._dynamo.trace_rules", "_allowed_callable_ids")
    return ids is not None and id(function) in ids


def is_torch_constant_result(function: FunctionType) -> bool:
    """Whether `torch.compiler.assume_constant_result` marked a function."""
    return bool(function.__dict__.get("_dynamo_marked_constant"))


def is_torch_graph_break(function: object) -> bool:
    """Whether a function is `torch._dynamo.graph_break`."""
    return isinstance(function, FunctionType) and function is _loaded("torch._dynamo.decorators", "graph_break")


def torch_substitute(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The stand-in that a library registered by `torch.compiler.substitute_in_graph`; torch's own are left out."""
    holder = _loaded("torch._dynamo.variables.functions", "PolyfilledFunctionVariable")
    if holder is None:
        return None
    try:
        wrapper = holder._get_polyfill_handlers().get(function)
    except TypeError:  # unhashable
        return None
    stand_in = getattr(wrapper, "__torch_dynamo_polyfill__", None)
    if stand_in is None or stand_in.__module__.startswith("torch."):
        return None
    return cast(Callable[..., Any], stand_in)


def torch_stance() -> str:
    """What `torch.compiler.set_stance` is set to."""
    return cast(str, getattr(_loaded("torch._dynamo.eval_frame", "_stance"), "stance", "default"))


# ---------------------------------------------------------------- modules

module_call = torch.nn.Module.__call__
"""What calling a module runs unless its class says otherwise."""
global_forward_hooks: tuple[dict[int, Any], ...] = (
    torch.nn.modules.module._global_forward_hooks,
    torch.nn.modules.module._global_forward_pre_hooks,
)
"""The hooks that run around the forward of every module there is."""
global_backward_hooks: tuple[dict[int, Any], ...] = (
    torch.nn.modules.module._global_backward_hooks,
    torch.nn.modules.module._global_backward_pre_hooks,
)
"""The hooks on the gradients of every module there is."""


def call_with_hooks(module_like: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the hooks of something that has a module's attributes around its `forward`."""
    return torch.nn.Module._call_impl(module_like, *args, **kwargs)


SCRIPT_MODULE: type = torch.jit.ScriptModule


def is_script_module(module: torch.nn.Module) -> bool:
    """Whether a module is TorchScript, whose code is no Python."""
    return isinstance(module, SCRIPT_MODULE)


def is_scripted_python(value: Any) -> bool:
    """Whether a value is a TorchScript function that remembers the Python function it was made from."""
    return isinstance(value, torch.jit.ScriptFunction) and hasattr(value, "_torchdynamo_inline")


def is_own_tensor_function(function: FunctionType) -> bool:
    """Whether a Python function is a method that torch itself gives all tensors."""
    return function.__module__ == "torch._tensor" and torch.Tensor.__dict__.get(function.__name__) is function


# ---------------------------------------------------------------- what the native extension reads

DisableTorchFunction = torch._C.DisableTorchFunction
DisableTorchFunctionSubclass = torch._C.DisableTorchFunctionSubclass
TensorBase = torch._C.TensorBase
DeviceContext = _device.DeviceContext
TorchDispatchMode = _python_dispatch.TorchDispatchMode


ATTENTION_KERNELS: tuple[tuple[Callable[[], bool], Callable[[bool], None]], ...] = tuple(
    (getattr(torch._C, f"_get_{kernel}_sdp_enabled"), getattr(torch._C, f"_set_sdp_use_{kernel}"))
    for kernel in ("flash", "mem_efficient", "math", "cudnn", "overrideable")
)
"""For each kernel of scaled dot product attention: whether it is allowed, and what allows or forbids it."""


def read_ambient() -> dict[str, Any]:
    """The state of this thread that decides what torch operations do."""
    included, excluded = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    function_modes_on = 0 if torch._C._is_torch_function_enabled() else 1
    if function_modes_on and torch._C._is_torch_function_all_disabled():
        function_modes_on = 2
    return {
        "grad_mode": torch.is_grad_enabled(),
        "inference_mode": torch.is_inference_mode_enabled(),
        "default_dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "deterministic_warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "autocast_cache": torch.is_autocast_cache_enabled(),
        "autocast_cpu_dtype": torch.get_autocast_dtype("cpu"),
        "autocast_cuda_dtype": torch.get_autocast_dtype("cuda"),
        "function_modes": torch._C._len_torch_function_stack(),
        "dispatch_modes": torch._C._len_torch_dispatch_stack(),
        "function_mode_state": function_modes_on,
        "attention_kernels": sum(allowed() << i for i, (allowed, _) in enumerate(ATTENTION_KERNELS)),
        "num_threads": torch.get_num_threads(),
        "included": included.raw_repr(),
        "excluded": excluded.raw_repr(),
    }


def dispatch_keys_that_differ(one: int, other: int) -> list[str]:
    """The names of the dispatch keys that are in one of two sets, given as numbers, and not in the other."""
    return re.findall(r"\w+", str(torch._C.DispatchKeySet.from_raw_repr(one ^ other)).partition("(")[2])


# ---------------------------------------------------------------- functions that go into graphs


def _members(*holders: Any) -> frozenset[Any]:
    found = (getattr(holder, name, None) for holder in holders for name in dir(holder) if not name.startswith("__"))
    return frozenset(f for f in found if callable(f))


def is_mutable(operator: OpOverload) -> bool:
    """Whether an operator's schema says that it writes to arguments."""
    return bool(operator._schema.is_mutable)


def overload_of(custom: CustomOpDef) -> OpOverload:
    """The operator behind a function made by `torch.library.custom_op`."""
    return custom._opoverload


GRAPH_BUILTINS: frozenset[Any] = _members(
    torch._C._VariableFunctions,
    torch._C._nn,
    *(getattr(torch._C, name) for name in ("_fft", "_linalg", "_special")),
) - {torch._C._nn._parse_to}
"""C functions that are operations on tensors."""
TENSOR_BASES: tuple[type, ...] = (torch.Tensor, torch._C.TensorBase)
"""The classes that define a tensor's methods."""
parse_to = torch._C._nn._parse_to
"""How `Tensor.to` and `Module.to` read their arguments."""


# ---------------------------------------------------------------- questions asked of torch

PROCESS_QUERIES: tuple[Any, ...] = (
    torch._C._is_autocast_available,
    torch._C._get_privateuse1_backend_name,
    torch._C._get_accelerator,
    torch.distributed.is_available,
    *((torch.distributed.is_initialized,) if torch.distributed.is_available() else ()),
)
"""Questions whose answer stays the same as long as the process runs."""
get_tracing_state = torch._C._get_tracing_state
"""The state of TorchScript's tracer; there is none while capturing."""
IS_COMPILING: tuple[Callable[..., bool], ...] = tuple(
    dict.fromkeys(
        (
            torch.compiler.is_compiling,
            torch.compiler.is_dynamo_compiling,
            torch._utils.is_compiling,
        )
    )
)
"""Questions that libraries ask to take the path for compilers."""
IS_SCRIPTING_OR_TRACING: tuple[Callable[..., bool], ...] = tuple(
    dict.fromkeys(
        (
            torch._jit_internal.is_scripting,
            torch.jit.is_tracing,  # type: ignore[attr-defined]  # imported there, not declared
            torch.compiler.is_exporting,
            torch._C._are_functorch_transforms_active,
        )
    )
)
"""Questions about other compilers, whose answer is no."""
TRANSFORMS_ACTIVE: Any = torch._C._are_functorch_transforms_active
"""Whether a function transform is running, as torch's own code asks."""
LOG_ONCE: tuple[Callable[..., None], ...] = (torch._C._log_api_usage_once,)
"""Reports of use that torch sends nowhere by default."""
INFERENCE_MODE_GUARDS: tuple[Any, ...] = (torch.inference_mode, torch._C._InferenceMode)
"""What switches inference mode on."""
has_torch_function = torch._C._has_torch_function
"""Whether any value of a tuple has its own `__torch_function__`."""
HAS_TORCH_FUNCTION: tuple[Any, ...] = (torch._C._has_torch_function_unary, torch._C._has_torch_function_variadic)
"""The same question about arguments."""
FUNCTION_MODE_QUERIES: tuple[Any, ...] = (
    torch._C._is_torch_function_mode_enabled,
    torch._C._len_torch_function_stack,
    torch._C._is_torch_function_enabled,
)
"""Questions about the stack of torch function modes."""


def function_modes_active() -> bool:
    """Whether a torch function mode, a default device included, is on."""
    return bool(torch._C._is_torch_function_mode_enabled())


# ---------------------------------------------------------------- graph modules


def node_at_line(module: torch.fx.GraphModule, line: int) -> torch.fx.Node | None:
    """The node that a line of the code of a graph module was made of, or None where that is not known."""
    numbers, start = getattr(module, "_lineno_map", None), getattr(module, "_prologue_start", None)
    index = numbers.get(line - start) if numbers is not None and start is not None else None
    nodes = list(module.graph.nodes)
    return nodes[index] if index is not None and index < len(nodes) else None


# ---------------------------------------------------------------- tensors from Python data

jit_annotate = torch.jit.annotate
"""A cast that means nothing outside of scripts."""
LEGACY_TENSOR_CLASSES: tuple[Any, ...] = (
    torch.Tensor,
    torch.FloatTensor,
    torch.DoubleTensor,
    torch.HalfTensor,
    torch.BFloat16Tensor,
    torch.LongTensor,
    torch.IntTensor,
    torch.ShortTensor,
    torch.CharTensor,
    torch.ByteTensor,
    torch.BoolTensor,
)
"""Classes whose call makes a tensor in the old way."""


def fold_dtypes(dtypes: list[torch.dtype]) -> torch.dtype:
    """The dtype that holds values of all these."""
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = torch.promote_types(result, dtype)
    return result


def why_operations_are_intercepted() -> str | None:
    """Why operations done while capturing would be seen by the user's code, or None."""
    if torch._C._len_torch_dispatch_stack():
        return "a torch dispatch mode is active"
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        return "saved-tensor hooks are active (checkpointing, for instance)"
    for position in range(torch._C._len_torch_function_stack()):
        mode = type(torch._C._get_function_stack_at(position))
        if mode is not DeviceContext:
            return f"a torch function mode is active, {mode.__qualname__}: it sees each call of torch"
    return None


def dispatch_modes_active() -> bool:
    """Whether something traces or watches the operations of this thread: a torch dispatch mode."""
    return torch._C._len_torch_dispatch_stack() > 0
