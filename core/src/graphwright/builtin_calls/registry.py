"""The table of handlers: what calling a builtin function does to variables.

A handler is `(tx, args, kwargs) -> variable`; its arguments have been looked at. Several handlers may serve one
function: they are asked in turn, the last registered with `first=True` before the others, and one that is not concerned
gives None.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import graphwright.graph_breaks as gb
from graphwright.variables.base import Kwargs, Tx, VariableTracker

VTs = list[VariableTracker]
Handler = Callable[[Tx, VTs, Kwargs], VariableTracker]
PartialHandler = Callable[[Tx, VTs, Kwargs], VariableTracker | None]
H = TypeVar("H", bound=Callable[..., Any])


class BuiltinRegistry:
    """Handlers by function."""

    def __init__(self) -> None:
        # By identity, since callables may have a hash of their own. Bound C methods such as dict.fromkeys are made anew
        # at each access and are equal, with a harmless hash.
        self._by_id: dict[int, tuple[Any, list[PartialHandler]]] = {}
        self._bound: dict[Any, list[PartialHandler]] = {}

    def handles(self, *functions: Any, first: bool = False) -> Callable[[H], H]:
        """Register a handler for functions, classes or unbound methods.

        Args:
            functions: the callables, by identity.
            first: whether it is asked before those that are registered already.
        """

        def enter(handler: H) -> H:
            for fn in functions:
                found = self._find(fn)
                if found is None:
                    found = []
                    if type(fn) is types.BuiltinFunctionType:
                        self._bound[fn] = found
                    else:
                        self._by_id[id(fn)] = (fn, found)
                found.insert(0 if first else len(found), handler)
            return handler

        return enter

    def _find(self, fn: Any) -> list[PartialHandler] | None:
        if type(fn) is types.BuiltinFunctionType:
            return self._bound.get(fn)
        entry = self._by_id.get(id(fn))
        return entry[1] if entry is not None else None

    def has_handler(self, fn: Any) -> bool:
        """Whether some handler serves a callable."""
        return self._find(fn) is not None

    def find_handler(self, fn: Any) -> Handler | None:
        """The handler of a callable, or None."""
        found = self._find(fn)
        if found is None:
            return None
        if len(found) == 1:
            return _only(found[0], fn)

        def first_concerned(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
            for handler in found:
                result = handler(tx, args, kwargs)
                if result is not None:
                    return result
            _refuse(tx, fn, args)

        return first_concerned


def _only(handler: PartialHandler, fn: Any) -> Handler:
    def call(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
        result = handler(tx, args, kwargs)
        if result is None:
            _refuse(tx, fn, args)
        return result

    return call


def _refuse(tx: Tx, fn: Any, args: VTs) -> NoReturn:
    kinds = ", ".join(a.type_name() for a in args)
    tx.graph_break(gb.UNKNOWN_CALL, f"call of {getattr(fn, '__qualname__', fn)!s}({kinds})")


REGISTRY = BuiltinRegistry()
handles = REGISTRY.handles
has_handler = REGISTRY.has_handler
find_handler = REGISTRY.find_handler
