"""Calls of logging functions that the user allows to move after the graph (`config.reorderable_logging_functions`)."""

from __future__ import annotations

from dataclasses import dataclass
from types import BuiltinMethodType, MethodType
from typing import TYPE_CHECKING, Any, Final, cast

import torch

import graphwright.graph_breaks as gb
from graphwright.torch_compat import tensor_version
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker, realize_all
from graphwright.variables.constant import ConstantVariable

if TYPE_CHECKING:
    from graphwright.exc import GraphBreak
    from graphwright.variables.tensor import TensorVariable

_TENSOR_TYPES: Final = (torch.Tensor, torch.nn.Parameter)


@dataclass(slots=True, eq=False)
class LaterCall:
    """A call that runs after the graph.

    Attributes:
        break_instead: breaks the graph at the call; for a call that must not move after all.
    """

    function: VariableTracker
    args: list[VariableTracker]
    kwargs: Kwargs
    break_instead: GraphBreak
    versions: list[tuple[TensorVariable, int]]

    def came_too_late(self) -> bool:
        """Whether a tensor it was given has been changed in place since, so that other values would be shown."""
        return any(tensor_version(tensor.fake) != version for tensor, version in self.versions)

    def replay(self, emit: Emitter) -> None:
        """Emit the call."""
        emit(self.function)
        for value in (*self.args, *self.kwargs.values()):
            emit(value)
        emit.op("call", len(self.args) + len(self.kwargs), tuple(self.kwargs))
        emit.op("pop_top")


def call_later(tx: Tx, fn: Any, variable: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """Note a call for after the graph, if its function is registered and its arguments show the same then.

    Returns:
        The call's result, None in the traced program; or None where the call is an ordinary one.
    """
    registered = tx.capture.settings.reorderable_logging_functions
    if not registered or not _is_registered(tx, fn, args, registered):
        return None
    values = realize_all(args)
    named = {name: value.realize() for name, value in kwargs.items()}
    given = [*values[_bound(fn, values) :], *named.values()]
    tensors = [cast("TensorVariable", value) for value in given if value.python_type() in _TENSOR_TYPES]
    if len(tensors) + sum(value.is_python_constant() for value in given) < len(given):
        return None
    if any(tensor.attributes for tensor in tensors):
        return None
    signal = tx.break_signal(gb.PRINTING, "a tensor is changed in place after it is logged here")
    versions = [(tensor, tensor_version(tensor.fake)) for tensor in tensors]
    tx.capture.effects.later_calls.append(LaterCall(variable, values, named, signal, versions))
    return ConstantVariable(None)


def _is_registered(tx: Tx, fn: Any, args: Args, registered: frozenset[object]) -> bool:
    if any(each is fn or (type(each) is type(fn) is BuiltinMethodType and each == fn) for each in registered):
        return True
    owner = args[0].realize() if args else None
    for each in registered:
        if isinstance(each, MethodType) and each.__func__ is fn and getattr(owner, "value", None) is each.__self__:
            assert owner is not None
            if owner.source is not None:
                tx.capture.guards.add(owner.source, "id", each.__self__)
            return True
    return False


def _bound(fn: Any, values: list[VariableTracker]) -> int:
    """How many leading arguments are the object that a method was called on: it is passed on, and not looked at."""
    owner = getattr(values[0], "value", None) if values else None
    is_method = owner is not None and getattr(type(owner), getattr(fn, "__name__", ""), None) is fn
    return 1 if is_method and values[0].source is not None else 0
