"""`torch.func.functional_call`: a module called with other parameters than its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.func

import graphwright.graph_breaks as gb
from graphwright.builtin_calls.registry import handles
from graphwright.builtin_calls.transforms import bound_arguments
from graphwright.torch_compat import SCRIPT_MODULE
from graphwright.variables.base import Kwargs, LazyVariable, Tx, VariableTracker, is_the
from graphwright.variables.dict import DictVariable
from graphwright.variables.nn_module import ModuleVariable
from graphwright.variables.sequence import TupleVariable
from graphwright.variables.tensor import TensorVariable

VTs = list[VariableTracker]
_REFUSED = (SCRIPT_MODULE, torch.nn.DataParallel)


@dataclass(eq=False)
class _Slot:
    """A place in a module that holds a parameter or buffer."""

    table: DictVariable
    key: Any
    entry: Any
    original: VariableTracker
    real: Any


@handles(torch.func.functional_call)
def functional_call(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """Calls the module with tensors put in the places of its own, and puts those back."""
    given = bound_arguments(tx, torch.func.functional_call, args, kwargs)
    module = given["module"]
    if not isinstance(module, ModuleVariable) or isinstance(module.value, _REFUSED):
        tx.graph_break(gb.HIGHER_ORDER, f"functional_call of a {module.type_name()}")
    ties = _flag(given, "tie_weights", default=True)
    values = _tensors_by_name(tx, given["parameter_and_buffer_dicts"])
    slots = dict(_slots(tx, module, ""))
    unknown = [name for name in values if name not in slots]
    if unknown or (_flag(given, "strict", default=False) and len(values) < len(slots)):
        tx.graph_break(gb.HIGHER_ORDER, f"functional_call with keys that are not those of the module: {unknown}")
    if ties:
        values = _with_tied(tx, values, slots)
    with _swapped(tx, {slots[name]: value for name, value in values.items()}):
        return tx.call(module, _positional(tx, given.get("args")), _named(tx, given.get("kwargs"))).realize()


def _flag(given: dict[str, Any], name: str, *, default: bool) -> bool:
    return bool(given[name].as_python_constant()) if name in given else default


def _tensors_by_name(tx: Tx, dicts: VariableTracker) -> dict[str, VariableTracker]:
    parts = [dicts] if isinstance(dicts, DictVariable) else dicts.unpack(tx)
    found: dict[str, VariableTracker] = {}
    for part in parts:
        table = part.realize()
        if not isinstance(table, DictVariable):
            tx.graph_break(gb.HIGHER_ORDER, f"functional_call with a {table.type_name()} of parameters")
        for entry in table.all_entries(tx):
            name, value = entry.key.realize().as_python_constant(), entry.value.realize()
            if name in found or not isinstance(value, TensorVariable):
                tx.graph_break(gb.TORCH_OP_FAILED, f"functional_call with {name} twice, or with no tensor")
            found[name] = value
    return found


def _slots(tx: Tx, module: ModuleVariable, prefix: str) -> Iterator[tuple[str, _Slot]]:
    """All places of parameters and buffers; what they hold is guarded by identity, as it tells which are tied."""
    for name in ("_parameters", "_buffers"):
        table = _table(tx, module, name)
        for key, entry in list(table.entries_by_key.items()):
            slot = _Slot(table, key, entry, entry.value, _guarded_value(tx, entry.value))
            if slot.real is not None:
                yield prefix + entry.key.as_python_constant(), slot
    for entry in _table(tx, module, "_modules").all_entries(tx):
        child = entry.value.realize()
        if isinstance(child, ModuleVariable):
            yield from _slots(tx, child, f"{prefix}{entry.key.as_python_constant()}.")
        elif not child.is_python_constant():
            tx.graph_break(gb.HIGHER_ORDER, f"functional_call of a module that holds a {child.type_name()}")


def _table(tx: Tx, module: ModuleVariable, name: str) -> DictVariable:
    table = module.state_table(tx, name)
    if table is None:
        tx.graph_break(gb.HIGHER_ORDER, f"functional_call of a {module.type_name()} without {name}")
    table.complete(tx)
    return table


def _guarded_value(tx: Tx, held: VariableTracker) -> Any:
    """The tensor that a place holds at entry, or None."""
    real = held.value if isinstance(held, LazyVariable) else getattr(held, "real", None)
    if held.source is None:
        tx.graph_break(gb.HIGHER_ORDER, "functional_call of a module whose parameters the program set")
    if real is None:
        tx.capture.guards.add(held.source, "eq", None)
    else:
        tx.capture.guards.add(held.source, "id", real)
    return real


def _with_tied(tx: Tx, values: dict[str, VariableTracker], slots: dict[str, _Slot]) -> dict[str, VariableTracker]:
    """The values, given to all names of a tensor that has several."""
    by_tensor: dict[int, VariableTracker] = {}
    for name, value in values.items():
        if by_tensor.setdefault(id(slots[name].real), value) is not value:
            tx.graph_break(gb.TORCH_OP_FAILED, f"functional_call with several values for the tied parameter {name}")
    return {name: by_tensor[id(slot.real)] for name, slot in slots.items() if id(slot.real) in by_tensor}


@contextlib.contextmanager
def _swapped(tx: Tx, values: dict[_Slot, VariableTracker]) -> Iterator[None]:
    """While entered, the places hold these values. That is undone, so it is no side effect."""
    for slot, value in values.items():
        slot.entry.value = value
    try:
        yield
        if any(_was_set(slot, value) for slot, value in values.items()):
            tx.graph_break(gb.HIGHER_ORDER, "functional_call of a module that sets its parameters or buffers")
    finally:
        for slot in values:
            slot.entry.value = slot.original


def _was_set(slot: _Slot, value: VariableTracker) -> bool:
    return slot.entry.value is not value or slot.table.entries_by_key.get(slot.key) is not slot.entry


def _positional(tx: Tx, args: VariableTracker | None) -> VTs:
    if args is None or (is_the(args, None)):
        return []
    return list(args.items) if isinstance(args, TupleVariable) else [args]


def _named(tx: Tx, kwargs: VariableTracker | None) -> Kwargs:
    if not isinstance(kwargs, DictVariable):
        return {}
    return {entry.key.realize().as_python_constant(): entry.value for entry in kwargs.all_entries(tx)}
