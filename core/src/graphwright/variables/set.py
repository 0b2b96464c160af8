"""The variables of Python's sets, in one place for those that make them."""

from __future__ import annotations

from graphwright.variables.set_methods import copy_of, operand
from graphwright.variables.set_variable import FrozenSetVariable, SetVariable, as_set

__all__ = ["FrozenSetVariable", "SetVariable", "as_set", "copy_of", "operand"]
