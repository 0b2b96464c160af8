"""Runs functions through the translator, beside the interpreter, and compares what comes out."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any

import pytest

from graphwright import graph_breaks as gb
from graphwright.capture import CaptureState, root_translator
from graphwright.codegen import argument_slots
from graphwright.exc import GraphBreak, ObservedException
from graphwright.settings import Settings
from graphwright.symbolic.frame_state import Returned
from graphwright.symbolic.translator import RootTranslator
from graphwright.variables.base import VariableTracker
from graphwright.variables.dict import DictVariable
from graphwright.variables.exception import ExceptionVariable
from graphwright.variables.list import ListVariable
from graphwright.variables.set import SetVariable
from graphwright.variables.tuple import TupleVariable


class Translation:
    """One function translated on given argument values, laid out as the frame's argument slots."""

    def __init__(self, fn: FunctionType, args: tuple[Any, ...], **settings: Any) -> None:
        assert len(argument_slots(fn.__code__)) == len(args)
        self.capture = CaptureState(replace(Settings(), **settings))
        self.tx: RootTranslator = root_translator(self.capture, fn, args)

    def result(self) -> Any:
        """What the function returns, as a Python value; raises `GraphBreak` as the translator does."""
        outcome = self.tx.translate()
        assert isinstance(outcome, Returned)
        assert self.tx.stack == []
        assert self.tx.handled.value is None
        return self.value_of(outcome.value)

    def value_of(self, vt: VariableTracker) -> Any:
        """A variable as a Python value."""
        return self._value(vt, {})

    def _value(self, vt: VariableTracker, made: dict[VariableTracker, Any]) -> Any:
        vt = vt.realize()
        if vt in made:
            return made[vt]
        if isinstance(vt, DictVariable):
            table = made[vt] = vt.cls()
            table.update((self._value(e.key, made), self._value(e.value, made)) for e in vt.all_entries(self.tx))
            return table
        if isinstance(vt, SetVariable):
            return vt.cls(self._value(item, made) for item in vt.unordered())
        if isinstance(vt, ListVariable):
            items = made[vt] = []
            items.extend(self._value(item, made) for item in vt.unpack(self.tx))
            return items
        if isinstance(vt, TupleVariable):
            return vt.cls(self._value(item, made) for item in vt.unpack(self.tx))
        return vt.as_python_constant()

    def described(self, error: VariableTracker | None) -> Any:
        """An exception of the traced program as data."""
        if error is None:
            return None
        assert isinstance(error, ExceptionVariable)
        chain = (self.described(error.cause), self.described(error.context), error.suppress_context)
        return (error.python_type(), tuple(self.value_of(a) for a in error.args.items), *chain)


def described(error: BaseException | None) -> Any:
    """An exception as data: type, arguments, cause, context."""
    if error is None:
        return None
    chain = (described(error.__cause__), described(error.__context__), error.__suppress_context__)
    return (type(error), error.args, *chain)


def interpret(fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, Any]:
    """What the interpreter makes of the call."""
    try:
        return "returned", fn(*args)
    except Exception as error:
        error.__traceback__ = None
        return "raised", described(error)


def translate(fn: Any, args: tuple[Any, ...]) -> tuple[str, Any]:
    """What the translator makes of the call."""
    translation = Translation(fn, args)
    try:
        return "returned", translation.result()
    except GraphBreak as signal:
        if signal.kind is not gb.EXCEPTION_ESCAPES:
            raise
        cause = signal.__cause__
    assert isinstance(cause, ObservedException)
    return "raised", translation.described(cause.value)


def typed(value: Any, outer: tuple[int, ...] = ()) -> Any:
    """A value with the types of all its parts, so that 1, 1.0 and True differ; cycles are cut."""
    if id(value) in outer:
        return "cycle"
    inner = (*outer, id(value))
    if isinstance(value, list | tuple):
        return (type(value), [typed(v, inner) for v in value])
    if isinstance(value, dict):
        return (type(value), [(typed(k, inner), typed(v, inner)) for k, v in value.items()])
    if isinstance(value, set | frozenset):
        return (type(value), sorted(map(repr, value)))
    return (type(value), repr(value))


def check_same(fn: Any, *args: Any) -> Any:
    """Require that translator and interpreter return or raise the same; gives the result."""
    expected = interpret(fn, copy.deepcopy(args))
    found = translate(fn, copy.deepcopy(args))
    assert (found[0], typed(found[1])) == (expected[0], typed(expected[1]))
    return expected[1]


@pytest.fixture
def same() -> Callable[..., Any]:
    """`same(fn, *args)`: translator and interpreter agree."""
    return check_same


@pytest.fixture
def breaks() -> Callable[..., GraphBreak]:
    """`breaks(kind, fn, *args)`: the translator breaks the graph with that kind; gives the signal."""

    def check(kind: gb.GraphBreakKind, fn: Any, *args: Any, **settings: Any) -> GraphBreak:
        with pytest.raises(GraphBreak) as caught:
            Translation(fn, args, **settings).result()
        assert caught.value.kind is kind, caught.value
        return caught.value

    return check


@pytest.fixture
def translation() -> Callable[..., Translation]:
    """`translation(fn, *args)`: a translation not started yet."""

    def make(fn: Any, *args: Any, **settings: Any) -> Translation:
        return Translation(fn, args, **settings)

    return make
