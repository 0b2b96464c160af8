"""Functions written in C, and functions for which a handler stands in."""

from __future__ import annotations

from typing import Any

import graphwright.graph_breaks as gb
from graphwright.builtin_calls.registry import find_handler
from graphwright.trust import is_trusted_module
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker, realize_all
from graphwright.variables.classes import ClassVariable
from graphwright.variables.later_call import call_later


class BuiltinVariable(VariableTracker):
    """A function written in C, or any callable with a handler in the table of builtins."""

    def __init__(self, fn: Any, source: Any = None) -> None:
        self.fn = fn
        self.source = source

    def python_type(self) -> type:
        return type(self.fn)

    def is_python_constant(self) -> bool:
        return True

    def as_python_constant(self) -> Any:
        return self.fn

    def hash_key(self, tx: Tx) -> Any:
        return self.fn

    def truth(self, tx: Tx) -> bool:
        return True

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        later = call_later(tx, self.fn, self, args, kwargs)
        if later is not None:
            return later
        handler = find_handler(self.fn)
        if handler is not None:
            return handler(tx, realize_all(args), {k: v.realize() for k, v in kwargs.items()})
        owner = getattr(self.fn, "__self__", None)
        if getattr(self.fn, "__name__", "") == "__new__" and isinstance(owner, type) and args:
            cls = args[0].realize()
            if isinstance(cls, ClassVariable):
                return cls.c_new(tx, owner, args[1:], kwargs)
        kind = gb.RANDOM_STATE if type(owner).__module__ == "random" else gb.UNKNOWN_CALL
        tx.graph_break(kind, f"call of {self.name()}, which has no model")

    def name(self) -> str:
        """A name for messages."""
        module = getattr(self.fn, "__module__", None)
        name = getattr(self.fn, "__qualname__", None) or repr(self.fn)
        return f"{module}.{name}" if module else name

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if isinstance(self.fn, type):
            return ClassVariable(self.fn).getattr(tx, name)
        try:
            value = getattr(self.fn, name)
        except AttributeError as error:
            tx.raise_(AttributeError, *error.args)
        if name == "__self__" and self.source is not None:
            return tx.wrap(value, self.source.attr(name))
        trusted = is_trusted_module(getattr(self.fn, "__module__", None))
        return tx.wrap(value, None if trusted or self.source is None else self.source.attr(name))

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if isinstance(self.fn, type):
            return ClassVariable(self.fn).call_method(tx, name, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, emit: Emitter) -> None:
        if isinstance(self.fn, type):
            emit.load_class(self.fn)
        else:
            emit.load_constant(self.fn)

    def __repr__(self) -> str:
        return f"<builtin {self.name()}>"
