"""Stand-ins: objects that let Python's own algorithms work on variables.

Sorting, ``str.format`` and ``repr`` of containers are long algorithms with exact rules. They run here as they are, on
objects whose special methods ask the translator.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import graphwright.graph_breaks as gb
from graphwright.exc import GraphBreak, GraphwrightError, InternalError, NotConstant, NotProxyable, ObservedException
from graphwright.variables.base import Tx, VariableTracker
from graphwright.variables.comparison import compare, equal

P = ParamSpec("P")
T = TypeVar("T")


def called_back(method: Callable[P, T]) -> Callable[P, T]:
    """Keep a bug of ours in a method that Python calls back from being taken for an exception of the traced program."""

    @functools.wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except (ObservedException, GraphBreak, NotConstant, NotProxyable, GraphwrightError):
            raise
        except Exception as error:
            raise InternalError(f"{type(error).__name__} in {method.__qualname__}: {error}") from error

    return guarded


class Orderable:
    """Stands in for a variable where only order and equality are asked for."""

    __slots__ = ("tx", "vt")
    __hash__ = None  # type: ignore[assignment]  # Python's way to say unhashable

    def __init__(self, tx: Tx, vt: VariableTracker) -> None:
        self.tx = tx
        self.vt = vt

    @called_back
    def __lt__(self, other: Orderable) -> bool:
        return compare(self.tx, operator.lt, self.vt, other.vt).truth(self.tx)

    @called_back
    def __gt__(self, other: Orderable) -> bool:
        return compare(self.tx, operator.gt, self.vt, other.vt).truth(self.tx)

    @called_back
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Orderable) and compare(self.tx, operator.eq, self.vt, other.vt).truth(self.tx)


class Probe:
    """Stands in for a variable where Python searches for an equal item, or names what it did not find."""

    __slots__ = ("tx", "vt")
    __hash__ = None  # type: ignore[assignment]  # Python's way to say unhashable

    def __init__(self, tx: Tx, vt: VariableTracker) -> None:
        self.tx = tx
        self.vt = vt

    @called_back
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Probe) and equal(self.tx, self.vt, other.vt)

    @called_back
    def __repr__(self) -> str:
        text = self.tx.call(self.tx.wrap(repr), [self.vt]).realize()
        return str(text.as_python_constant()) if text.is_python_constant() else f"<{self.vt.type_name()}>"


class Shown:
    """Stands in for a value of which only the text is asked for."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


class Formattable:
    """Stands in for a variable inside ``str.format`` and ``%``."""

    def __init__(self, tx: Tx, vt: VariableTracker) -> None:
        object.__setattr__(self, "_tx", tx)
        object.__setattr__(self, "_vt", vt)

    @called_back
    def __str__(self) -> str:
        return _text(self, str)

    @called_back
    def __repr__(self) -> str:
        return _text(self, repr)

    @called_back
    def __format__(self, spec: str) -> str:
        return _text(self, format, spec)

    @called_back
    def __getattribute__(self, name: str) -> Any:
        tx, vt = _parts(self)
        return formattable(tx, vt.getattr(tx, name).realize())

    @called_back
    def __getitem__(self, key: Any) -> Any:
        tx, vt = _parts(self)
        return formattable(tx, tx.call(tx.wrap(operator.getitem), [vt, tx.wrap(key)]).realize())


def _parts(standin: Formattable) -> tuple[Tx, VariableTracker]:
    return object.__getattribute__(standin, "_tx"), object.__getattribute__(standin, "_vt")


def _text(standin: Formattable, fn: Any, *args: Any) -> str:
    tx, vt = _parts(standin)
    result = tx.call(tx.wrap(fn), [vt, *(tx.wrap(a) for a in args)]).realize()
    if not result.is_python_constant():
        tx.graph_break(gb.DATA_DEPENDENT_VALUE, f"text of a {vt.type_name()} that is not known while capturing")
    return str(result.as_python_constant())


def formattable(tx: Tx, vt: VariableTracker) -> Any:
    """What stands in for a variable in formatting: a constant itself, anything else a stand-in."""
    vt = vt.realize()
    return vt.as_python_constant() if vt.is_python_constant() else Formattable(tx, vt)
