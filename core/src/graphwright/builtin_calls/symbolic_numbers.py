"""Functions that numbers which vary go through: what checks of torch ask, `min` and `max`."""

from __future__ import annotations

import functools
from typing import Any

import torch

from graphwright.builtin_calls.registry import handles
from graphwright.torch_compat import assert_scalar, check_condition, expect_true
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.graph_argument import graph_argument
from graphwright.variables.sequence import ListVariable, TupleVariable
from graphwright.variables.symbolic import SymbolicBoolVariable, symbolic_ints


@handles(expect_true)
def expect(tx: Tx, args: list[VariableTracker], kwargs: Kwargs) -> VariableTracker:
    """What a check of torch asks: known now, or checked by the graph and taken for true until then."""
    condition = args[0]
    if not isinstance(condition, SymbolicBoolVariable):
        return tx.wrap(condition.truth(tx))
    output = tx.capture.output
    output.run_fake(tx, check_condition, condition.number, what="a check")
    text = f"{condition.number} does not hold, though the program checks it"
    output.create_node("call_function", assert_scalar, (graph_argument(condition), text), {}, None)
    return tx.wrap(True)


def _register_choice(fn: Any, symbolic: Any) -> None:
    @handles(fn, first=True)
    def choose(tx: Tx, args: list[VariableTracker], kwargs: Kwargs) -> VariableTracker | None:
        """The least or greatest of several ints, without asking which it is."""
        among = args[0].unpack(tx) if len(args) == 1 and isinstance(args[0], (TupleVariable, ListVariable)) else args
        numbers = symbolic_ints([value.realize() for value in among]) if not kwargs else None
        return None if numbers is None else tx.wrap(functools.reduce(symbolic, numbers))


_register_choice(min, torch.sym_min)
_register_choice(max, torch.sym_max)
