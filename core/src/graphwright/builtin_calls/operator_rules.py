"""Ordered rules for operators, through which kinds of values plug in their own arithmetic.

A rule is asked with the operator's function and the operands and gives None where it is not concerned. Constants come
first, then the rules registered here (tensors, symbolic numbers), then Python's data model over special methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphwright.variables.base import Tx, VariableTracker

OperatorFunction = Callable[..., Any]
Rule = Callable[[Tx, OperatorFunction, list[VariableTracker]], VariableTracker | None]


class OperatorRules:
    """Rules in order of priority: the lowest number is asked first."""

    def __init__(self) -> None:
        self._rules: list[tuple[int, Rule]] = []

    def register(self, priority: int) -> Callable[[Rule], Rule]:
        """Enter a rule.

        Args:
            priority: constants are asked at 10, the data model at 90; between them is room for other kinds.
        """

        def enter(rule: Rule) -> Rule:
            self._rules.append((priority, rule))
            self._rules.sort(key=lambda entry: entry[0])
            return rule

        return enter

    def apply(self, tx: Tx, op: OperatorFunction, operands: list[VariableTracker]) -> VariableTracker | None:
        """The result of the first rule that is concerned."""
        for _, rule in self._rules:
            result = rule(tx, op, operands)
            if result is not None:
                return result
        return None


OPERATOR_RULES = OperatorRules()
register_operator_rule = OPERATOR_RULES.register
