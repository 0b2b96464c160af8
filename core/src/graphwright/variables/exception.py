"""Exception objects of the traced program."""

from __future__ import annotations

import inspect
from types import FunctionType, NoneType, TracebackType
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.variables.base import Args, Emitter, Kwargs, NotReconstructible, Tx, VariableTracker
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.sequence import TupleVariable
from graphwright.variables.user_defined import ObjectVariable

WITH_FIELDS = (SyntaxError, UnicodeError, OSError, ImportError, SystemExit)
"""Classes whose constructor, written in C, keeps more than `args`, or gives an object of another class."""
_CHAINING = ("__cause__", "__context__", "__suppress_context__", "__traceback__")


class ExceptionVariable(ObjectVariable):
    """An exception that the traced program made.

    Attributes:
        args: what `BaseException.args` holds.
        cause, context, suppress_context: as set by `raise ... from` and by raising while another is handled.
        was_raised: it has a traceback, which replacement code cannot make.
    """

    def __init__(self, cls: type, args: TupleVariable) -> None:
        super().__init__(cls)
        self.args = args
        self.cause: VariableTracker | None = None
        self.context: VariableTracker | None = None
        self.suppress_context = False
        self.traceback_vt: VariableTracker | None = None
        self.was_raised = False

    def generic_getattr(self, tx: Tx, name: str, *, hook: bool = True) -> VariableTracker:
        if name == "args":
            return self.args
        if name in ("__cause__", "__context__"):
            return (self.cause if name == "__cause__" else self.context) or tx.wrap(None)
        if name == "__suppress_context__":
            return tx.wrap(self.suppress_context)
        if name == "__traceback__":
            tx.graph_break(gb.DYNAMIC_CODE, "the traceback of an exception")
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.args.items[0] if self.args.items else tx.wrap(None)
        return super().generic_getattr(tx, name, hook=hook)

    def generic_setattr(self, tx: Tx, name: str, value: VariableTracker | None) -> None:
        if name == "args" and value is not None:
            self.args = TupleVariable(value.realize().unpack(tx))
        elif name in ("__cause__", "__context__") and value is not None:
            kind = value.realize().python_type()
            if kind is not NoneType and not issubclass(kind, BaseException):
                tx.raise_(TypeError, f"exception {name.strip('_')} must be None or derive from BaseException")
            chained = None if value.realize().is_python_constant() else value.realize()
            if name == "__cause__":
                self.cause, self.suppress_context = chained, True
            else:
                self.context = chained
        elif name == "__suppress_context__" and value is not None:
            self.suppress_context = value.realize().truth(tx)
        elif name == "__traceback__":
            if value is None:
                tx.raise_(TypeError, "__traceback__ may not be deleted")
            if value.realize().python_type() not in (NoneType, TracebackType):
                tx.raise_(TypeError, "__traceback__ must be a traceback or None")
            self.traceback_vt = value
        else:
            super().generic_setattr(tx, name, value)

    def call_c_method(self, tx: Tx, base: type, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "__init__":
            if kwargs:
                tx.graph_break(gb.UNKNOWN_CALL, f"{base.__name__}.__init__ with keywords")
            self.args = TupleVariable(list(args))
            return tx.wrap(None)
        if name == "__str__":
            return self._text(tx, base)
        if name == "__repr__":
            shown = tx.call(tx.wrap(repr), [self.args]).realize().as_python_constant()
            if len(self.args.items) == 1:
                shown = shown[:-2] + ")"
            return tx.wrap(f"{self.cls.__name__}{shown}")
        if name == "with_traceback":
            self.traceback_vt = args[0]
            return self
        if name == "add_note":
            tx.graph_break(gb.UNKNOWN_CALL, "add_note")
        return super().call_c_method(tx, base, name, args, kwargs)

    def _text(self, tx: Tx, base: type) -> VariableTracker:
        items = self.args.items
        if not items:
            return tx.wrap("")
        if len(items) > 1:
            return tx.call(tx.wrap(str), [self.args])
        return tx.call(tx.wrap(repr if base is KeyError else str), [items[0]])

    def hash_key(self, tx: Tx) -> Any:
        return self

    def reconstruct(self, emit: Emitter) -> None:
        if self.was_raised:
            raise NotReconstructible(self)
        made_in_c = not isinstance(inspect.getattr_static(self.cls, "__init__"), FunctionType)
        if not made_in_c:  # its `__init__` ran already, at capture
            emit.load_constant(self.cls.__new__)
        emit.load_class(self.cls)
        for item in self.args.items:
            emit(item)
        emit.op("call", len(self.args.items) + (not made_in_c))
        emit.remember(self)
        for key, value in self.attrs.entries() if self.attrs is not None else ():
            emit.op("copy", 1)
            emit(value)
            emit.op("swap", 2)
            emit.op("store_attr", key.as_python_constant())
        for name, chained in zip(_CHAINING, (self.cause, self.context, None, self.traceback_vt), strict=True):
            if chained is not None:
                emit.op("copy", 1)
                emit(chained)
                emit.op("swap", 2)
                emit.op("store_attr", name)
        if self.suppress_context != (self.cause is not None):
            emit.op("copy", 1)
            emit.load_constant(self.suppress_context)
            emit.op("swap", 2)
            emit.op("store_attr", "__suppress_context__")


def make_exception(tx: Tx, kind: Any, args: tuple[Any, ...] = ()) -> VariableTracker:
    """The exception that `raise kind` or `raise kind(*args)` raises.

    Args:
        kind: a class, or a variable of a class or of an exception object.
        args: constants or variables.
    """
    if not isinstance(kind, VariableTracker):
        values = [a if isinstance(a, VariableTracker) else tx.wrap(a) for a in args]
        return ExceptionVariable(kind, TupleVariable(values))
    raised: VariableTracker = kind.realize()
    python_type = raised.python_type()
    if issubclass(python_type, BaseException):
        return raised
    if issubclass(python_type, type) and issubclass(raised.as_python_constant(), BaseException):
        return tx.call(raised, list(args)).realize()
    return ExceptionVariable(TypeError, TupleVariable([ConstantVariable("exceptions must derive from BaseException")]))


def _mro_of(cls: type) -> frozenset[type]:
    """The bases of a class, itself included. An `except` clause asks these, and no `__subclasscheck__`."""
    return frozenset(type.__dict__["__mro__"].__get__(cls))


def exception_matches(tx: Tx, exception: VariableTracker, pattern: VariableTracker) -> bool:
    """`except pattern`: whether the exception's class is, or derives from, one of the pattern's."""
    pattern = pattern.realize()
    if pattern.is_python_constant():
        classes = pattern.as_python_constant()
    else:
        classes = tuple(item.realize().as_python_constant() for item in pattern.unpack(tx))
    some = classes if isinstance(classes, tuple) else (classes,)
    if not all(isinstance(c, type) and BaseException in _mro_of(c) for c in some):
        tx.raise_(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    return not _mro_of(exception.realize().python_type()).isdisjoint(some)
