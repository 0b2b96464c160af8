"""What programs say of numbers that only the graph knows: `torch._check` and its kin."""

from __future__ import annotations

import torch

from graphwright.builtin_calls.registry import handles
from graphwright.torch_compat import expect_true
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.symbolic import SymbolicBoolVariable


@handles(expect_true)
def expect(tx: Tx, args: list[VariableTracker], kwargs: Kwargs) -> VariableTracker:
    """The question at the bottom of `torch._check`: known now, or checked by the graph and taken for true until then."""
    condition = args[0]
    if not isinstance(condition, SymbolicBoolVariable):
        return tx.wrap(condition.truth(tx))
    tx.capture.output.call_op(tx, "call_function", torch._check, [condition])
    return tx.wrap(True)
