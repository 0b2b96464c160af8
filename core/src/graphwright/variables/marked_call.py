"""Calls of functions that carry a marker of Graphwright's or torch's: disabled, allowed in the graph, and so on."""

from __future__ import annotations

from types import FunctionType

import graphwright.graph_breaks as gb
import graphwright.markers as markers
from graphwright.exc import NotConstant
from graphwright.variables.base import Args, Kwargs, Tx, VariableTracker, realize_all
from graphwright.variables.constant import ConstantVariable


def call_marked(tx: Tx, fn: FunctionType, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """What a marker makes of a call, or None where the function carries none.

    Raises:
        GraphBreak: GW0010, GW0011: the marker forbids to look into the function, or asks for a graph break.
    """
    disabled = markers.why_disabled(fn)
    if disabled is not None:
        signal = tx.break_signal(gb.DISABLED, f"{fn.__qualname__}: {disabled}")
        signal.hooked = not disabled.recursive
        raise signal
    if markers.is_graph_break(fn):
        reason = args[0].realize() if args else None
        said = f" ({reason.as_python_constant()})" if reason is not None and reason.is_python_constant() else ""
        tx.graph_break(gb.EXPLICIT, f"call of {fn.__qualname__}{said}")
    if markers.is_compiling_query(fn):
        return ConstantVariable(True)
    if markers.is_allowed_in_graph(fn):
        return tx.capture.output.call_op(tx, "call_function", fn, realize_all(args), _realized(kwargs))
    if markers.has_constant_result(fn):
        return _constant_result(tx, fn, args, kwargs)
    substitute = markers.substitute_of(fn)
    if substitute is not None:
        return tx.call(tx.wrap(substitute.function), args, kwargs)
    return None


def _realized(kwargs: Kwargs) -> Kwargs:
    return {name: value.realize() for name, value in kwargs.items()}


def _constant_result(tx: Tx, fn: FunctionType, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Call the function now, once and for all."""
    try:
        values = [value.as_python_constant() for value in realize_all(args)]
        named = {name: value.as_python_constant() for name, value in _realized(kwargs).items()}
    except NotConstant:
        tx.graph_break(gb.UNKNOWN_CALL, f"{fn.__qualname__} has a constant result, but its arguments are not constants")
    try:
        result = fn(*values, **named)
    except Exception as error:  # noqa: BLE001  the interpreter will raise it again, at its place
        tx.graph_break(gb.UNKNOWN_CALL, f"{fn.__qualname__} raised {type(error).__name__}")
    return tx.capture.wrapper.wrap_trusted(tx, result, tx.capture.roots.object(result))
