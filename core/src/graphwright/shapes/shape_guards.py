"""What a capture assumed of its symbols, as relations that the native guards check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphwright.exc import DynamicSizeFixed
from graphwright.shapes.algebra import NATIVE, Expr, NotExpressible, Step, in_words, postfix
from graphwright.shapes.symbols import Place, SymbolTable
from graphwright.sources import Source
from graphwright.torch_compat import assumed_of_symbols, simplified, symbol_range, sympy, value_of

_INT64 = 2**63


@dataclass(frozen=True, slots=True)
class ShapeRelation:
    """One condition on sizes and numbers: a program over places, and its text in the user's names."""

    places: tuple[Place, ...]
    steps: tuple[tuple[str, int], ...]
    text: str


def fixed_floats(table: SymbolTable) -> list[tuple[Source, float]]:
    """The floats from outside that something was assumed of: native relations compare integers only."""
    env = table.shape_env
    assumed = {symbol for condition in assumed_of_symbols(env) for symbol in condition.free_symbols}
    floats = [(symbol, place) for symbol, place in table.bound() if place.kind == "float"]
    return [
        (place.source, value_of(env, symbol))
        for symbol, place in floats
        if symbol in assumed or simplified(env, symbol) != symbol
    ]


def shape_relations(table: SymbolTable) -> list[ShapeRelation]:
    """Everything that must hold for the symbols, and for what guards on tensors leave open."""
    relations: dict[str, ShapeRelation] = {}
    for condition in _conditions(table):
        for relation in _relations_of(table, condition):
            relations.setdefault(relation.text, relation)
    return list(relations.values())


def check_required_dims(table: SymbolTable) -> None:
    """Refuse an entry that fixes a size which the program marked as dynamic.

    Raises:
        DynamicSizeFixed: it does.
    """
    for dim in table.required:
        if getattr(simplified(table.shape_env, dim.expr), "is_Symbol", False):
            continue
        if isinstance(dim.expr, int) or dim.expr.is_Integer:
            raise DynamicSizeFixed(
                f"{dim.place} is marked as dynamic, but is {dim.size} in the first call. Sizes 0 and 1 are always "
                "captured on their own, as broadcasting depends on them: make the first call with a size from 2 on, or "
                "use graphwright.mark_unbacked."
            )
        where = table.why_fixed(dim.expr)
        raise DynamicSizeFixed(
            f"{dim.place} is marked as dynamic, but the program holds it to {simplified(table.shape_env, dim.expr)}"
            f"{':' if where else ''}\n{where}\nWhat to do: make the code there work for every size, or drop the mark "
            "(graphwright.maybe_mark_dynamic asks for a dynamic size without insisting)."
        )


@dataclass(frozen=True, slots=True)
class _Equals:
    """A place holds what an expression gives."""

    place: Place
    expr: Expr


def _conditions(table: SymbolTable) -> Iterator[_Equals | Expr]:
    env = table.shape_env
    for place, expr in table.equations:
        if place.kind == "float":
            continue
        now = simplified(env, expr)
        if not (getattr(now, "is_Symbol", False) and table.place_of(now) == place):
            yield _Equals(place, now)
    for symbol, place in table.bound():
        now = simplified(env, symbol)
        if now != symbol or place.kind in ("offset", "float"):
            continue
        least, most = symbol_range(env, symbol)
        # Sizes are at least 0 anyway.
        if least is not None and not (place.kind == "size" and least <= 0):
            yield sympy.GreaterThan(symbol, least, evaluate=False)
        if most is not None:
            yield sympy.LessThan(symbol, most, evaluate=False)
    yield from assumed_of_symbols(env)


def _relations_of(table: SymbolTable, condition: _Equals | Expr) -> Iterator[ShapeRelation]:
    program = _program(table, condition)
    if program is not None:
        yield _relation(table, program)
        return
    # No native operation says it: hold each symbol in it to its value, which implies it.
    expr = condition.expr if isinstance(condition, _Equals) else condition
    for symbol in sorted(expr.free_symbols, key=str):
        place = table.place_of(symbol)
        if place is not None and place.kind != "float":
            steps = [Step("leaf", place), Step("const", value_of(table.shape_env, symbol)), Step("eq")]
            yield _relation(table, steps)
    if isinstance(condition, _Equals):
        yield _relation(
            table, [Step("leaf", condition.place), Step("const", value_of(table.shape_env, expr)), Step("eq")]
        )


def _program(table: SymbolTable, condition: _Equals | Expr) -> list[Step] | None:
    """The steps over places, or None where native guards cannot carry them out."""
    expr = condition.expr if isinstance(condition, _Equals) else condition
    try:
        steps = postfix(expr)
    except NotExpressible:
        return None
    placed = [_placed(table, step) for step in steps]
    if None in placed:
        return None
    result = [step for step in placed if step is not None]
    return [Step("leaf", condition.place), *result, Step("eq")] if isinstance(condition, _Equals) else result


def _placed(table: SymbolTable, step: Step) -> Step | None:
    if step.operation not in NATIVE:
        return None
    if step.operation == "leaf":
        place = table.place_of(step.operand)
        return None if place is None or place.kind == "float" else Step("leaf", place)
    if step.operation == "const" and not (isinstance(step.operand, int) and -_INT64 <= step.operand < _INT64):
        return None
    return step


def _relation(table: SymbolTable, program: list[Step]) -> ShapeRelation:
    places = tuple(dict.fromkeys(step.operand for step in program if step.operation == "leaf"))
    numbers: dict[Any, int] = {place: number for number, place in enumerate(places)}
    steps = tuple(
        ("place", numbers[operand]) if operation == "leaf" else (operation, operand or 0)
        for operation, operand in program
    )
    return ShapeRelation(places, steps, in_words(program, str))
