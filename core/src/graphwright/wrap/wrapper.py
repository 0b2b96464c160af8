"""Gives every Python value its variable, with the guards that its kind needs."""

from __future__ import annotations

from typing import Any

import graphwright.graph_breaks as gb
from graphwright.sources import Source
from graphwright.trust import is_trusted_module
from graphwright.variables.base import LazyVariable, Tx, VariableTracker
from graphwright.wrap.rules import CONSTANT_RULES, EXACT_RULES, ORDERED_RULES, Rule


class Wrapper:
    """Wraps values; one met twice in a capture is one variable."""

    def lazy(self, tx: Tx, value: Any, source: Source) -> VariableTracker:
        """A variable that looks at its value, and guards it, when somebody asks."""
        return LazyVariable(value, source, tx.wrap)

    def wrap(self, tx: Tx, value: Any, source: Source | None = None) -> VariableTracker:
        """The variable of a value.

        Args:
            source: where an outside value came from; without one the value is immutable, or its rule finds a source.

        Raises:
            GraphBreak: GW0006, GW0018: the value is of a kind that is not modelled.
        """
        if isinstance(value, VariableTracker):
            return value
        constant = CONSTANT_RULES.get(type(value))
        if constant is not None:
            return constant(tx, value, source)
        known = tx.capture.effects.known(value)
        if known is not None:
            if source is not None and known.source is None:
                # First met where it is trusted to stay, now where it may change.
                tx.capture.guards.add(source, "id", value)
            elif source is not None and known.source is not None and known.source is not source:
                tx.capture.guards.same(source, known.source)
            return known
        variable = self._rule(tx, value)(tx, value, source)
        tx.capture.effects.know(value, variable)
        return variable

    def wrap_trusted(self, tx: Tx, value: Any, source: Source) -> VariableTracker:
        """The variable of what a trusted module holds: functions, classes and constants need no guard.

        Mutable objects are reached through `source` all the same.
        """
        if type(value) in CONSTANT_RULES or isinstance(value, type) or _is_trusted_callable(value):
            return self.wrap(tx, value)
        return self.wrap(tx, value, source)

    def _rule(self, tx: Tx, value: Any) -> Rule:
        exact = EXACT_RULES.get(type(value))
        if exact is not None:
            return exact
        for applies, rule in ORDERED_RULES:
            if applies(value):
                return rule
        tx.graph_break(gb.UNSUPPORTED_VALUE, f"a {type(value).__module__}.{type(value).__qualname__}")


def _is_trusted_callable(value: Any) -> bool:
    """Whether a callable is a function of a trusted module or written in C, so that its identity says all."""
    if not callable(value) or not hasattr(value, "__qualname__"):
        return False
    return not hasattr(value, "__code__") or is_trusted_module(getattr(value, "__module__", None))
