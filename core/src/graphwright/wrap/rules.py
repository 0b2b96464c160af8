"""The table of wrapping rules: by exact type first, then by ordered questions.

A rule is a function `(tx, value, source) -> variable`. Constants have a table of their own: they are not
remembered by identity.
"""

from __future__ import annotations

import enum
import functools
import itertools
import math
import types
import typing
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import torch

import graphwright.graph_breaks as gb
from graphwright._native import Compiled
from graphwright.builtin_calls.registry import has_handler
from graphwright.sources import Source
from graphwright.torch_compat import SYMBOLIC_TYPES, is_scripted_python
from graphwright.trust import is_trusted_class, is_trusted_module
from graphwright.variables.base import Tx, VariableTracker
from graphwright.variables.builtin import BuiltinVariable
from graphwright.variables.cell import CellVariable
from graphwright.variables.classes import ClassVariable
from graphwright.variables.constant import LITERAL_TYPES, ConstantVariable
from graphwright.variables.dict import DictVariable, MappingProxyVariable
from graphwright.variables.fresh import fresh
from graphwright.variables.function import BoundMethodVariable, UserFunctionVariable
from graphwright.variables.misc import (
    CachedFunctionVariable,
    OpaqueVariable,
    PartialVariable,
    PythonModuleVariable,
    WeakReferenceVariable,
)
from graphwright.variables.nn_module import ModuleVariable
from graphwright.variables.object_model import C_DESCRIPTORS, CMethodVariable
from graphwright.variables.outside import outside_container
from graphwright.variables.sequence import RangeVariable, SliceVariable
from graphwright.variables.symbolic import SymbolicFloatVariable, SymbolicIntVariable, wrap_number
from graphwright.variables.torch_function import TorchFunctionVariable, is_graph_function
from graphwright.variables.user_defined import CONTAINER_BASES, ObjectVariable, layout_base

Rule = Callable[[Any, Any, Source | None], VariableTracker]


# ---------------------------------------------------------- constants


def wrap_literal(tx: Tx, value: Any, source: Source | None) -> VariableTracker:
    """A number, string, bytes, bool, None: guarded by value."""
    if source is not None:
        tx.capture.guards.add(source, "eq", value)
    return ConstantVariable(value, source)


def wrap_int(tx: Tx, value: int, source: Source | None) -> VariableTracker:
    """An int: a symbol where it has been another before, else guarded by value."""
    output = tx.capture.output
    if source is None or not output.shapes.number_varies(source, value):
        return wrap_literal(tx, value, source)
    tx.capture.guards.add(source, "type", int)
    return SymbolicIntVariable(output, output.symbols.new_number(value, source), source)


def _has_symbol(value: float) -> bool:
    """Whether a shape environment can hold a float: its numbers are real ones, and have no negative zero."""
    return math.isfinite(value) and (value != 0.0 or math.copysign(1.0, value) > 0)


def wrap_float(tx: Tx, value: float, source: Source | None) -> VariableTracker:
    """A float: a symbol where it has been another before, else guarded by value."""
    output = tx.capture.output
    if source is None or not _has_symbol(value) or not output.shapes.number_varies(source, value):
        return wrap_literal(tx, value, source)
    tx.capture.guards.add(source, "type", float)
    number = output.symbols.new_number(value, source)
    return SymbolicFloatVariable(output, number, output.number_input(source), source)


def wrap_symbolic_number(tx: Tx, value: Any, source: Source | None) -> VariableTracker:
    """A number computed from sizes that vary; a question about them is answered for this call, and guarded."""
    return wrap_number(tx, value, None)


def wrap_identity_constant(tx: Tx, value: Any, source: Source | None) -> VariableTracker:
    """A dtype, layout, enum member and the like: one object for each value."""
    if source is not None:
        tx.capture.guards.add(source, "id", value)
    return ConstantVariable(value, source)


def wrap_device(tx: Tx, value: torch.device, source: Source | None) -> VariableTracker:
    """A device: equal ones may be different objects."""
    if source is not None:
        tx.capture.guards.add(source, "type", torch.device)
        tx.capture.guards.add(source.attr("type"), "eq", value.type)
        tx.capture.guards.add(source.attr("index"), "eq", value.index)
    return ConstantVariable(value, source)


def wrap_limits(tx: Tx, value: Any, source: Source | None) -> VariableTracker:
    """A torch.finfo or torch.iinfo."""
    if source is not None:
        tx.capture.guards.add(source, "type", type(value))
        tx.capture.guards.add(source.attr("dtype"), "eq", value.dtype)
    return ConstantVariable(value, source)


CONSTANT_RULES: dict[type, Rule] = {
    **dict.fromkeys(LITERAL_TYPES, wrap_literal),
    int: wrap_int,
    float: wrap_float,
    **dict.fromkeys(SYMBOLIC_TYPES, wrap_symbolic_number),
    torch.dtype: wrap_identity_constant,
    torch.layout: wrap_identity_constant,
    torch.memory_format: wrap_identity_constant,
    torch.qscheme: wrap_identity_constant,
    torch.device: wrap_device,
    torch.finfo: wrap_limits,
    torch.iinfo: wrap_limits,
    types.CodeType: wrap_identity_constant,
    types.UnionType: wrap_identity_constant,
    types.GenericAlias: wrap_identity_constant,
    type(list[int]): wrap_identity_constant,
    type(typing.List[int]): wrap_identity_constant,  # noqa: UP006  the old spelling has its own type
    type(typing.Union[int, str]): wrap_identity_constant,  # noqa: UP007
    type(typing.Any): wrap_identity_constant,
    type(typing.Optional): wrap_identity_constant,
    type(typing.List): wrap_identity_constant,  # noqa: UP006
    type(typing.Tuple): wrap_identity_constant,  # noqa: UP006
    typing.TypeVar: wrap_identity_constant,
}


# ---------------------------------------------------------- containers


def wrap_container(tx: Tx, value: Any, source: Source | None) -> VariableTracker:
    """A list, tuple, dict or one of their relatives in the standard library."""
    if source is None:
        made = fresh(tx, value)
        if made is not None:
            return made
        source = tx.capture.roots.object(value)
    return outside_container(tx, type(value), value, source)


def wrap_mapping_proxy(tx: Tx, value: Any, source: Source | None) -> VariableTracker:
    """A read-only view of a dict; one inside an object that lives with the entry never changes."""
    if source is not None and next(source.path()).accessor != "constant":
        return wrap_opaque(tx, value, source)
    table = DictVariable.new()
    for key, item in value.items():
        table.store(tx, tx.wrap(key), tx.lazy(item, tx.capture.roots.object(item)))
    return MappingProxyVariable(table)


def wrap_range(tx: Tx, value: range, source: Source | None) -> VariableTracker:
    """A range."""
    return RangeVariable(value) if source is None else RangeVariable.outside(tx, value, source)


def wrap_slice(tx: Tx, value: slice, source: Source | None) -> VariableTracker:
    """A slice."""
    return SliceVariable.outside(tx, value, source or tx.capture.roots.constant(value))


def wrap_cell(tx: Tx, value: types.CellType, source: Source | None) -> VariableTracker:
    """A closure cell."""
    return CellVariable(cell=value, source=source or tx.capture.roots.constant(value))


# ---------------------------------------------------------- callables


def guard_function(tx: Tx, value: types.FunctionType, source: Source) -> None:
    """Hold a function to its code; one in a stable place to its identity as well, so that its globals are known."""
    guards = tx.capture.guards
    stable = source.accessor in ("mro_attr", "object", "constant") or (
        source.base is not None and source.base.accessor == "globals"
    )
    if stable:
        guards.add(source, "id", value)
    else:
        guards.add(source, "type", types.FunctionType)
    guards.add(source.attr("__code__"), "id", value.__code__)


def wrap_function(tx: Tx, value: types.FunctionType, source: Source | None) -> VariableTracker:
    """A Python function: into the graph, by a handler, or to be inlined."""
    if has_handler(value):
        return BuiltinVariable(value, source)
    if is_graph_function(value):
        return TorchFunctionVariable(value, source)
    if source is not None:
        guard_function(tx, value, source)
    elif not is_trusted_module(value.__module__):
        source = tx.capture.roots.object(value)
    return UserFunctionVariable(value, source)


def wrap_builtin(tx: Tx, value: Any, source: Source | None) -> VariableTracker:
    """A function written in C."""
    if source is not None:
        tx.capture.guards.add(source, "id", value)
    if has_handler(value):
        return BuiltinVariable(value, source)
    if is_graph_function(value):
        return TorchFunctionVariable(value, source)
    return BuiltinVariable(value, source)


def wrap_c_descriptor(tx: Tx, value: Any, source: Source | None) -> VariableTracker:
    """An unbound method written in C, such as `dict.get` or `torch.Tensor.add`."""
    if source is not None:
        tx.capture.guards.add(source, "id", value)
    if has_handler(value):
        return BuiltinVariable(value, source)
    if is_graph_function(value):
        return TorchFunctionVariable(value, source)
    return CMethodVariable(value)


def wrap_method(tx: Tx, value: types.MethodType, source: Source | None) -> VariableTracker:
    """A bound method."""
    if source is None:
        return BoundMethodVariable(tx.wrap(value.__func__), tx.wrap(value.__self__))
    tx.capture.guards.add(source, "type", types.MethodType)
    function = tx.wrap(value.__func__, source.attr("__func__"))
    return BoundMethodVariable(function, tx.lazy(value.__self__, source.attr("__self__")), source)


def wrap_partial(tx: Tx, value: functools.partial[Any], source: Source | None) -> VariableTracker:
    """A functools.partial."""
    source = source or tx.capture.roots.object(value)
    guards = tx.capture.guards
    guards.add(source, "type", functools.partial)
    guards.add(source.attr("args"), "len", len(value.args))
    guards.add(source.attr("keywords"), "keys", tuple(value.keywords))
    args = [tx.lazy(a, source.attr("args").index(i)) for i, a in enumerate(value.args)]
    named = {k: tx.lazy(v, source.attr("keywords").dict_item(k)) for k, v in value.keywords.items()}
    return PartialVariable(tx.wrap(value.func, source.attr("func")), args, named, source)


def wrap_cached_function(tx: Tx, value: Any, source: Source | None) -> VariableTracker:
    """A function under functools.lru_cache."""
    if source is not None:
        tx.capture.guards.add(source, "id", value)
    if has_handler(value):
        return BuiltinVariable(value, source)
    return CachedFunctionVariable(value, source)


def wrap_script_function(tx: Tx, value: Any, source: Source | None) -> VariableTracker:
    """A TorchScript function: the Python function it was made from."""
    source = source or tx.capture.roots.object(value)
    tx.capture.guards.add(source, "id", value)
    return tx.wrap(value._torchdynamo_inline, source.attr("_torchdynamo_inline"))


def wrap_compiled(tx: Tx, value: Any, source: Source | None) -> VariableTracker:
    """A function that Graphwright compiled: looked through."""
    if source is not None:
        tx.capture.guards.add(source, "type", type(value))
        return tx.wrap(value.__wrapped__, source.attr("__wrapped__"))
    return tx.wrap(value.__wrapped__)


# ---------------------------------------------------------- classes, modules, objects


def wrap_class(tx: Tx, value: type, source: Source | None) -> VariableTracker:
    """A class."""
    if source is not None and source.accessor not in ("object", "constant"):
        tx.capture.guards.add(source, "id", value)
    if has_handler(value):
        return BuiltinVariable(value, source)
    if not is_trusted_class(value):
        source = tx.capture.roots.object(value)
    return ClassVariable(value, source)


def wrap_python_module(tx: Tx, value: types.ModuleType, source: Source | None) -> VariableTracker:
    """A Python module."""
    if source is not None:
        tx.capture.guards.add(source, "id", value)
    return PythonModuleVariable(value, None if is_trusted_module(value.__name__) else source)


def wrap_tensor(tx: Tx, value: torch.Tensor, source: Source | None) -> VariableTracker:
    """A tensor: a graph input."""
    source = source or tx.capture.roots.object(value)
    return tx.capture.output.add_input(tx, value, source)


def wrap_tensor_subclass(tx: Tx, value: torch.Tensor, source: Source | None) -> VariableTracker:
    """A tensor of a subclass."""
    tx.graph_break(gb.TENSOR_SUBCLASS, f"a {type(value).__module__}.{type(value).__qualname__}")


def wrap_nn_module(tx: Tx, value: torch.nn.Module, source: Source | None) -> VariableTracker:
    """An nn.Module."""
    source = source or tx.capture.roots.object(value)
    tx.capture.guards.add(source, "type", type(value))
    return ModuleVariable(type(value), value, source)


def wrap_object(tx: Tx, value: Any, source: Source | None) -> VariableTracker:
    """An object of a class written in Python, subclasses of builtin containers included."""
    source = source or tx.capture.roots.object(value)
    cls = type(value)
    tx.capture.guards.add(source, "type", cls)
    layout = layout_base(cls)
    storage = None
    if layout in CONTAINER_BASES:
        storage = outside_container(tx, layout, value, source)
    if layout is tuple and hasattr(cls, "_fields"):
        assert storage is not None
        return storage
    return ObjectVariable(cls, value, source, storage)


def is_pybind_enum(value: Any) -> bool:
    """Whether a value is a member of an enumeration made by pybind11, such as `SDPBackend`."""
    members = getattr(type(value), "__members__", None)
    return isinstance(members, dict) and value in members.values()


def is_python_object(value: Any) -> bool:
    """Whether the class of a value is written in Python, on top of `object` or a container."""
    cls = type(value)
    if not cls.__flags__ & (1 << 9):
        return False
    layout = layout_base(cls)
    return layout is object or layout in CONTAINER_BASES


def wrap_weak_reference(tx: Tx, value: Any, source: Source | None) -> VariableTracker:
    """A weakref.ref."""
    source = source or tx.capture.roots.object(value)
    tx.capture.guards.add(source, "type", type(value))
    return WeakReferenceVariable(value, source)


def wrap_opaque(tx: Tx, value: Any, source: Source | None) -> VariableTracker:
    """Anything else: passed on, compared by identity."""
    source = source or tx.capture.roots.object(value)
    tx.capture.guards.add(source, "type", type(value))
    return OpaqueVariable(value, source)


EXACT_RULES: dict[type, Rule] = {
    **dict.fromkeys((list, tuple, dict, OrderedDict, defaultdict, deque, set, frozenset, torch.Size), wrap_container),
    types.MappingProxyType: wrap_mapping_proxy,
    range: wrap_range,
    slice: wrap_slice,
    types.CellType: wrap_cell,
    types.FunctionType: wrap_function,
    types.MethodType: wrap_method,
    types.BuiltinFunctionType: wrap_builtin,
    types.MethodWrapperType: wrap_builtin,
    functools.partial: wrap_partial,
    type(functools.lru_cache(lambda: None)): wrap_cached_function,
    Compiled: wrap_compiled,
    torch.Tensor: wrap_tensor,
    torch.nn.Parameter: wrap_tensor,
    **dict.fromkeys(C_DESCRIPTORS, wrap_c_descriptor),
}
"""Rules by exact type."""

ORDERED_RULES: tuple[tuple[Callable[[Any], bool], Rule], ...] = (
    (lambda v: isinstance(v, torch.Tensor), wrap_tensor_subclass),
    (is_scripted_python, wrap_script_function),
    (lambda v: isinstance(v, type), wrap_class),
    (lambda v: isinstance(v, types.ModuleType), wrap_python_module),
    (lambda v: isinstance(v, enum.Enum) or is_pybind_enum(v), wrap_identity_constant),
    (lambda v: callable(v) and (has_handler(v) or is_graph_function(v)), wrap_builtin),
    (lambda v: isinstance(v, torch.nn.Module), wrap_nn_module),
    (lambda v: isinstance(v, weakref.ref), wrap_weak_reference),
    (lambda v: isinstance(v, (itertools.count, types.GeneratorType)), wrap_opaque),
    (is_python_object, wrap_object),
    (lambda v: True, wrap_opaque),
)
"""Rules by question, asked in this order."""
