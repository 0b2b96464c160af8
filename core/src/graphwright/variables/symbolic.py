"""Numbers that vary from call to call: sizes, and ints from outside that have changed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

import graphwright.graph_breaks as gb
from graphwright.exc import NotProxyable
from graphwright.shapes.algebra import NotExpressible, Step, carry_out, postfix
from graphwright.torch_compat import SYMBOLIC_TYPES, expression_of, is_unbacked, simplified
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.graph_argument import graph_argument

if TYPE_CHECKING:
    from graphwright.graph.output_graph import OutputGraph
    from graphwright.shapes.symbols import Place
    from graphwright.sources import Source


Origin = fx.Node | tuple[Any, Args]


class SymbolicNumberVariable(ConstantVariable):
    """A number that the graph computes with.

    Whoever asks for its value fixes it: the entry then serves calls with that value only. So everything that knows
    constants works with it, and what can do without the value asks for `number`.

    Attributes:
        number: the symbolic number.
    """

    varies = True
    kind: type = int

    def __init__(self, output: OutputGraph, number: Any, source: Source | None = None) -> None:
        self.output = output
        self.number = number
        self.source = source

    @property
    def value(self) -> Any:
        """The value in this call; from here on the number is fixed."""
        return self.output.fix_number(self.number)

    def python_type(self) -> type:
        return self.kind

    def is_python_constant(self) -> bool:
        return not is_unbacked(self.number)

    def truth(self, tx: Tx) -> bool:
        return self.output.decide(tx, self.number != 0)

    def hash_key(self, tx: Tx) -> Any:
        self.require_value(tx)
        return super().hash_key(tx)

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        self.require_value(tx)
        return super().call_method(tx, name, args, kwargs)

    def require_value(self, tx: Tx) -> None:
        """Break the graph where the value is not known."""
        if is_unbacked(self.number):
            tx.graph_break(gb.DATA_DEPENDENT_VALUE, f"the value of {self.number}, a number made from a tensor")

    def __repr__(self) -> str:
        return f"<symbolic {self.kind.__name__} {self.number}>"


class SymbolicIntVariable(SymbolicNumberVariable):
    """An int that varies: an expression over sizes and ints from outside."""

    def as_proxy(self) -> Any:
        try:
            return self.output.numbers.argument(self.number)
        except NotExpressible as error:
            raise NotProxyable(str(error)) from error

    def reconstruct(self, emit: Emitter) -> None:
        """Compute the number anew, from what the symbols are read from."""
        expr = simplified(self.output.shape_env, expression_of(self.number))

        def load(symbol: Any) -> None:
            place = self.output.symbols.place_of(symbol)
            if place is None:
                emit.load_output(self.output.numbers.argument(symbol))
            else:
                load_place(emit, place)

        _emit_program(emit, postfix(expr), load)


class _ComputedVariable(SymbolicNumberVariable):
    """A number that one operation gives: floats, whose result the order of operations decides, and answers.

    Args:
        origin: the node that gives it, or a function and the variables that it is called with.
    """

    def __init__(self, output: OutputGraph, number: Any, origin: Origin, source: Source | None = None) -> None:
        super().__init__(output, number, source)
        self._origin = origin

    def as_proxy(self) -> Any:
        if not isinstance(self._origin, fx.Node):
            function, operands = self._origin
            arguments = tuple(graph_argument(v) for v in operands)
            return self.output.create_node("call_function", function, arguments, {}, self.number, removable=True)
        return self._origin

    def reconstruct(self, emit: Emitter) -> None:
        if isinstance(self._origin, fx.Node):
            source = self.output.source_of_number(self._origin)
            if source is not None:
                emit.load_source(source)
            else:
                emit.load_output(self._origin)
            return
        function, operands = self._origin
        emit.load_constant(function)
        for operand in operands:
            emit(operand)
        emit.op("call", len(operands))


class SymbolicFloatVariable(_ComputedVariable):
    """A float that varies."""

    kind = float


class SymbolicBoolVariable(_ComputedVariable):
    """The answer to a question about values that only the graph knows."""

    kind = bool

    def truth(self, tx: Tx) -> bool:
        return self.output.decide(tx, self.number)


def wrap_number(tx: Tx, number: Any, origin: Origin | None) -> VariableTracker:
    """The variable of a symbolic number; `origin` is what computes it, None for one that sizes determine."""
    output = tx.capture.output
    if isinstance(number, torch.SymInt):
        fixed = output.known_value(number)
        if fixed is not None:
            return ConstantVariable(fixed)
        if isinstance(origin, fx.Node):
            output.numbers.know(number, origin)
        return SymbolicIntVariable(output, number)
    if isinstance(number, torch.SymBool) and (origin is None or not is_unbacked(number)):
        return ConstantVariable(output.decide(tx, number))
    if origin is None:
        return ConstantVariable(output.fix_number(number))
    kind = SymbolicFloatVariable if isinstance(number, torch.SymFloat) else SymbolicBoolVariable
    return kind(output, number, origin)


def needs_node(value: Any) -> bool:
    """Whether a result is a number that only its node can give."""
    return isinstance(value, torch.SymFloat) or (isinstance(value, SYMBOLIC_TYPES) and is_unbacked(value))


def _emit_program(emit: Emitter, program: list[Step], load: Callable[[Any], None]) -> None:
    """Emit a program for Python's stack, where a function lies under its arguments."""
    Emission = list[Callable[[], object]]

    def apply(function: Any, *arguments: Emission) -> Emission:
        inner = [emission for argument in arguments for emission in argument]
        return [lambda: emit.load_constant(function), *inner, lambda: emit.op("call", len(arguments))]

    def constant(value: Any) -> Emission:
        return [lambda: emit.load_constant(value)]

    for emission in carry_out(program, constant, lambda symbol: [lambda: load(symbol)], apply):
        emission()


def load_place(emit: Emitter, place: Place) -> None:
    """Push the number that a place holds."""
    if place.kind in ("int", "float"):
        emit.load_source(place.source)
        return
    method = {"size": "size", "stride": "stride", "offset": "storage_offset"}[place.kind]
    emit.load_constant(operator.methodcaller(method, *(() if place.kind == "offset" else (place.index,))))
    emit.load_source(place.source)
    emit.op("call", 1)


def is_symbolic(value: VariableTracker) -> bool:
    """Whether a variable is a number that varies."""
    return value.varies


# ---------------------------------------------------------------- operators

_PLAIN: dict[Any, Any] = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.ifloordiv: operator.floordiv,
    operator.itruediv: operator.truediv,
    operator.imod: operator.mod,
    operator.ipow: operator.pow,
}
_ARITHMETIC = frozenset({operator.add, operator.sub, operator.mul, operator.neg, operator.pos})
_DIVISIONS = frozenset({operator.floordiv, operator.mod})
_COMPARISONS = frozenset({operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge})
_UNCHANGED = frozenset({int, round, operator.index, math.floor, math.ceil, math.trunc})
"""What gives an int itself."""
_OF_FLOATS: dict[Any, Any] = {
    math.floor: math.floor,
    math.ceil: math.ceil,
    int: torch.sym_int,
    math.trunc: torch.sym_int,
}
"""What turns a float into an int, as a node does it."""
_LARGEST_POWER = 8


def symbolic_operator(tx: Tx, op: Any, operands: list[VariableTracker]) -> VariableTracker | None:
    """What an operator or a function of numbers gives where some of them vary.

    Returns:
        None for what needs the values.
    """
    op = _PLAIN.get(op, op)
    values = [_operand(v) for v in operands]
    if None in values:
        return None
    if all(isinstance(v, (int, torch.SymInt)) for v in values):
        return _of_ints(tx, op, operands, values)
    return _of_floats(tx, op, operands, values)


def _operand(variable: VariableTracker) -> Any:
    if isinstance(variable, SymbolicNumberVariable):
        return variable.number
    if isinstance(variable, ConstantVariable) and type(variable.value) in (int, float):
        return variable.value
    return None


def symbolic_ints(variables: list[VariableTracker]) -> list[Any] | None:
    """The numbers of variables that are all ints, some of which vary; else None."""
    if not any(v.varies for v in variables):
        return None
    numbers = [_operand(v) for v in variables]
    return numbers if all(isinstance(n, (int, torch.SymInt)) for n in numbers) else None


def _of_ints(tx: Tx, op: Any, operands: list[VariableTracker], values: list[Any]) -> VariableTracker | None:
    if op in _ARITHMETIC or op in _COMPARISONS or (op is operator.pow and _is_small_power(values)):
        return _result(tx, op, operands, op(*values))
    if op in _DIVISIONS and operands[1].truth(tx):
        return tx.wrap(op(*values))
    if op is operator.truediv and operands[1].truth(tx):
        return _result(tx, op, operands, op(*values))
    if len(values) != 1:
        return None
    if op in _UNCHANGED:
        return operands[0]
    if op is float:
        return _result(tx, torch.sym_float, operands, torch.sym_float(values[0]))
    if op in (abs, operator.abs):
        negative = tx.capture.output.decide(tx, values[0] < 0)
        return tx.wrap(-values[0]) if negative else operands[0]
    if op is math.sqrt and tx.capture.output.decide(tx, values[0] >= 0):
        return _result(tx, torch.sym_sqrt, operands, torch.sym_sqrt(values[0]))
    return None


def _of_floats(tx: Tx, op: Any, operands: list[VariableTracker], values: list[Any]) -> VariableTracker | None:
    if op in _ARITHMETIC or op in _COMPARISONS:
        return _result(tx, op, operands, op(*values))
    if op is operator.truediv and operands[1].truth(tx):
        return _result(tx, op, operands, op(*values))
    if op is operator.pow and type(values[1]) is float and tx.capture.output.decide(tx, values[0] > 0):
        return _result(tx, op, operands, op(*values))
    if len(values) != 1:
        return None
    if op is float:
        return operands[0]
    if op in _OF_FLOATS:
        function = _OF_FLOATS[op]
        return _result(tx, function, operands, function(values[0]))
    return None


def _result(tx: Tx, function: Any, operands: list[VariableTracker], result: Any) -> VariableTracker:
    """The variable of a computed number, with a node of its own where only that can give it."""
    if isinstance(result, torch.SymInt) and _has_float(operands):
        node = tx.capture.output.create_node(
            "call_function", function, tuple(map(graph_argument, operands)), {}, result, removable=True
        )
        return wrap_number(tx, result, node)
    return wrap_number(tx, result, (function, operands)) if needs_node(result) else tx.wrap(result)


def _has_float(operands: list[VariableTracker]) -> bool:
    return any(issubclass(v.python_type(), float) for v in operands)


def _is_small_power(values: list[Any]) -> bool:
    return type(values[1]) is int and 0 <= values[1] <= _LARGEST_POWER
