"""Functions that ask for or set torch's global state: answered while capturing, set again in the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
import torch.backends.cudnn
import torch.backends.mkl
import torch.backends.mkldnn
import torch.backends.mps
import torch.compiler
import torch.cuda
import torch.distributed
import torch.overrides

import graphwright.graph_breaks as gb
from graphwright.builtin_calls.registry import handles
from graphwright.graph_breaks import GraphBreakKind
from graphwright.torch_compat import (
    ATTENTION_KERNELS,
    FUNCTION_MODE_QUERIES,
    HAS_TORCH_FUNCTION,
    INFERENCE_MODE_GUARDS,
    IS_COMPILING,
    IS_SCRIPTING_OR_TRACING,
    LOG_ONCE,
    PROCESS_QUERIES,
    TRANSFORMS_ACTIVE,
    function_modes_active,
    get_tracing_state,
    has_torch_function,
    parse_to,
    set_grad_enabled,
    transforms_active,
)
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.constant import constant_call

VTs = list[VariableTracker]
QUERIES = (
    torch.is_grad_enabled,
    torch.is_inference_mode_enabled,
    torch.is_autocast_enabled,
    torch.is_autocast_cpu_enabled,
    torch.is_autocast_cache_enabled,
    torch.get_autocast_dtype,
    torch.get_autocast_gpu_dtype,
    torch.get_autocast_cpu_dtype,
    torch.amp.is_autocast_available,
    torch.get_default_dtype,
    torch.get_default_device,
    torch.are_deterministic_algorithms_enabled,
    torch.is_deterministic_algorithms_warn_only_enabled,
    torch.cuda.is_available,
    torch.cuda.device_count,
    torch.cuda.is_bf16_supported,
    torch.cuda.get_device_capability,
    torch.cuda.get_device_name,
    torch.backends.mps.is_available,
    torch.backends.mps.is_built,
    torch.backends.mkldnn.is_available,
    torch.backends.mkl.is_available,
    torch.backends.cudnn.is_available,
    torch.backends.cudnn.version,
    torch.xpu.is_available,
    torch.xpu.device_count,
    torch.mps.device_count,
    torch.distributed.is_available,
    torch.accelerator.is_available,
    torch.accelerator.current_accelerator,
    torch.accelerator.device_count,
    torch.finfo,
    torch.iinfo,
    torch.device,
    parse_to,
    *FUNCTION_MODE_QUERIES,
    *PROCESS_QUERIES,
    *(allowed for allowed, _ in ATTENTION_KERNELS),
)
"""Questions whose answer guards on the ambient state, or the process, hold."""
SETTERS: tuple[Callable[..., Any], ...] = (
    set_grad_enabled,
    torch.set_autocast_enabled,
    torch.set_autocast_cpu_enabled,
    torch.set_autocast_dtype,
    torch.set_autocast_gpu_dtype,
    torch.set_autocast_cpu_dtype,
    torch.set_autocast_cache_enabled,
    torch.autocast_increment_nesting,
    torch.autocast_decrement_nesting,
    torch.clear_autocast_cache,
    *(allow for _, allow in ATTENTION_KERNELS),
)
"""Setters of grad mode, autocast and attention kernels."""
_REFUSED: dict[GraphBreakKind, tuple[Any, ...]] = {
    gb.RANDOM_STATE: (
        torch.random.manual_seed,  # `import torch._dynamo` replaces torch.manual_seed by a wrapper of it
        torch.seed,
        torch.initial_seed,
        torch.get_rng_state,
        torch.set_rng_state,
        torch.random.fork_rng,
        torch.cuda.manual_seed,
        torch.cuda.manual_seed_all,
        torch.cuda.get_rng_state,
        torch.cuda.set_rng_state,
        torch.Generator,
    ),
    gb.UNSUPPORTED_TORCH: (
        torch.set_default_dtype,
        torch.set_default_device,
        torch.use_deterministic_algorithms,
        torch.set_float32_matmul_precision,
        torch.set_num_threads,
        torch.nn.Parameter,
        torch.nn.Buffer,
    ),
    gb.CONTEXT_MANAGER: INFERENCE_MODE_GUARDS,
    gb.BACKWARD_INSIDE: (torch.autograd.grad, torch.autograd.backward),
}


def constants_of(tx: Tx, fn: Any, args: VTs, kwargs: Kwargs) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as constants; graph break where one is none."""
    if not all(a.is_python_constant() for a in (*args, *kwargs.values())):
        tx.graph_break(gb.UNSUPPORTED_TORCH, f"{fn.__name__} with arguments that are not known while capturing")
    return [a.as_python_constant() for a in args], {k: v.as_python_constant() for k, v in kwargs.items()}


def _register_query(fn: Callable[..., Any]) -> None:
    @handles(fn)
    def answer(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
        values, named = constants_of(tx, fn, args, kwargs)
        return constant_call(tx, fn, values, named)


def _register_setter(fn: Callable[..., Any]) -> None:
    @handles(fn)
    def set_state(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
        values, named = constants_of(tx, fn, args, kwargs)
        if named:
            tx.graph_break(gb.UNSUPPORTED_TORCH, f"{fn.__name__} with keyword arguments")
        return tx.wrap(tx.capture.output.set_state(fn, *values))


def _register_refusal(fn: Any, kind: GraphBreakKind) -> None:
    @handles(fn)
    def refuse(tx: Tx, args: VTs, kwargs: Kwargs) -> NoReturn:
        tx.graph_break(kind, f"call of torch's {getattr(fn, '__qualname__', fn)}")


def _register_constant(fn: Any, value: Any) -> None:
    @handles(fn)
    def answer(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
        return tx.wrap(value)


for _fn in QUERIES:
    _register_query(_fn)
for _fn in SETTERS:
    _register_setter(_fn)
for _kind, _fns in _REFUSED.items():
    for _fn in _fns:
        _register_refusal(_fn, _kind)
for _fn in IS_COMPILING:
    _register_constant(_fn, True)
for _fn in IS_SCRIPTING_OR_TRACING:
    _register_constant(_fn, False)


@handles(TRANSFORMS_ACTIVE)
def are_transforms_active(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """Whether a transform runs: inside the body of one, yes; around a capture the guards on dispatch keys say no."""
    return tx.wrap(transforms_active())


for _fn in (get_tracing_state, *LOG_ONCE):
    _register_constant(_fn, None)


# ---------------------------------------------------------------- __torch_function__


def overrides_torch(variable: VariableTracker) -> bool:
    """Whether the class of a value decides itself what torch functions do with it."""
    kind = variable.realize().python_type()
    return hasattr(kind, "__torch_function__") and kind not in (torch.Tensor, torch.nn.Parameter)


def _answer_override(tx: Tx, values: VTs) -> VariableTracker:
    if function_modes_active():
        tx.graph_break(gb.TENSOR_SUBCLASS, "torch function mode, or default device, active around a torch function")
    return tx.wrap(any(overrides_torch(v) for v in values))


for _fn in HAS_TORCH_FUNCTION:

    @handles(_fn)
    def has_override(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
        """`torch.overrides.has_torch_function_unary` and `_variadic`."""
        return _answer_override(tx, args)


@handles(has_torch_function)
def has_override_in(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`torch.overrides.has_torch_function`."""
    return _answer_override(tx, args[0].unpack(tx))


@handles(torch.overrides.is_tensor_like)
def is_tensor_like(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """Whether torch functions take the value for a tensor."""
    kind = args[0].python_type()
    return tx.wrap(kind is torch.Tensor or hasattr(kind, "__torch_function__"))


@handles(torch.is_tensor)
def is_tensor(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """Whether the value is a tensor."""
    return tx.wrap(issubclass(args[0].python_type(), torch.Tensor))


@handles(torch.is_storage)
def is_storage(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """Whether the value is a storage."""
    return tx.wrap(issubclass(args[0].python_type(), (torch.UntypedStorage, torch.TypedStorage)))
