"""Smaller kinds of values: Python modules, partials, cached functions, objects that are only passed on."""

from __future__ import annotations

import functools
import types
import weakref
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.exc import NotConstant
from graphwright.sources import Source
from graphwright.trust import is_trusted_module
from graphwright.variables.base import Args, Emitter, Kwargs, NotReconstructible, Tx, VariableTracker
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.dict import DictVariable
from graphwright.variables.sequence import TupleVariable


class PythonModuleVariable(VariableTracker):
    """A Python module."""

    def __init__(self, module: types.ModuleType, source: Any = None) -> None:
        self.module = module
        self.source = source

    def python_type(self) -> type:
        return type(self.module)

    def hash_key(self, tx: Tx) -> Any:
        return self.module

    def namespace(self, tx: Tx) -> DictVariable:
        """The module's `__dict__`."""
        base = self.source or tx.capture.roots.constant(self.module)
        found = tx.wrap(self.module.__dict__, base.instance_dict())
        assert isinstance(found, DictVariable)
        return found

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name == "__dict__":
            return self.namespace(tx)
        module = self.module
        if not is_trusted_module(module.__name__) and name in module.__dict__:
            found = self.namespace(tx).lookup(tx, ConstantVariable(name))
            assert found is not None
            return found
        pending = self.pending(tx, name)
        if pending is not None:
            return pending
        try:
            value = getattr(module, name)
        except AttributeError as error:
            tx.raise_(AttributeError, *error.args)
        source = tx.capture.roots.constant(module).attr(name)
        if name in module.__dict__:
            source = tx.capture.roots.constant(module).instance_dict().dict_item(name)
        return tx.capture.wrapper.wrap_trusted(tx, value, source)

    def pending(self, tx: Tx, name: str) -> VariableTracker | None:
        """What the traced program itself stored under the name, in a module that is trusted otherwise."""
        known = tx.capture.effects.known(self.module.__dict__)
        if isinstance(known, DictVariable) and name in self.module.__dict__:
            return known.lookup(tx, ConstantVariable(name))
        return None

    def setattr(self, tx: Tx, name: str, value: VariableTracker) -> None:
        if is_trusted_module(self.module.__name__):
            tx.graph_break(gb.MUTATION_OF_UNKNOWN, f"setting {name!r} of the module {self.module.__name__}")
        self.namespace(tx).store(tx, ConstantVariable(name), value)

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(self.module)

    def __repr__(self) -> str:
        return f"<module {self.module.__name__}>"


class PartialVariable(VariableTracker):
    """A `functools.partial`."""

    def __init__(
        self, function: VariableTracker, args: list[VariableTracker], kwargs: Kwargs, source: Any = None
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.source = source

    def python_type(self) -> type:
        return functools.partial

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.call(self.function, [*self.args, *args], {**self.kwargs, **kwargs})

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name == "func":
            return self.function
        if name == "args":
            return TupleVariable(list(self.args))
        if name == "keywords" and self.source is None:
            table = DictVariable.new()
            for key, value in self.kwargs.items():
                table.store(tx, ConstantVariable(key), value)
            return table
        if hasattr(functools.partial, name):
            tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"attribute {name!r} of a partial")
        if self.source is not None:
            tx.capture.guards.add(self.source.instance_dict(), "dict_lacks", name)
        tx.raise_(AttributeError, f"'functools.partial' object has no attribute '{name}'")

    def hash_key(self, tx: Tx) -> Any:
        return self

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(functools.partial)
        emit(self.function)
        for value in self.args:
            emit(value)
        for value in self.kwargs.values():
            emit(value)
        emit.op("call", 1 + len(self.args) + len(self.kwargs), tuple(self.kwargs))
        emit.remember(self)


class CachedFunctionVariable(VariableTracker):
    """A function under `functools.cache` or `lru_cache`, called for real where its arguments are constants."""

    def __init__(self, fn: Any, source: Any = None) -> None:
        self.fn = fn
        self.source = source

    def python_type(self) -> type:
        return type(self.fn)

    def _name(self) -> str:
        return getattr(self.fn, "__qualname__", None) or repr(self.fn)

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        values = [a.realize() for a in args]
        named = {k: v.realize() for k, v in kwargs.items()}
        try:
            arguments = [_unchanging(v) for v in values]
            by_name = {k: _unchanging(v) for k, v in named.items()}
        except NotConstant:
            tx.graph_break(gb.UNKNOWN_CALL, f"cached function {self._name()} with arguments that are not constants")
        try:
            result = self.fn(*arguments, **by_name)
        except Exception as error:  # noqa: BLE001  the interpreter will raise it again, at its place
            tx.graph_break(gb.UNKNOWN_CALL, f"cached function {self._name()} raised {type(error).__name__}")
        return tx.capture.wrapper.wrap_trusted(tx, result, tx.capture.roots.object(result))

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name in ("cache_clear", "cache_info", "cache_parameters"):
            tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"{name} of a cached function")
        try:
            return tx.wrap(getattr(self.fn, name), self.source.attr(name) if self.source else None)
        except AttributeError as error:
            tx.raise_(AttributeError, *error.args)

    def hash_key(self, tx: Tx) -> Any:
        return self.fn

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(self.fn)


def _unchanging(value: VariableTracker) -> Any:
    """The object behind a constant, or behind something that is held by identity.

    Raises:
        NotConstant: it is neither.
    """
    source = value.source
    held = source is not None and source.base is None and source.accessor in ("object", "constant")
    if held and not value.is_python_constant() and hasattr(value, "value"):
        return value.value
    return value.as_python_constant()


class WeakReferenceVariable(VariableTracker):
    """An outside `weakref.ref`: held by its identity, since what it refers to never changes but to nothing."""

    source: Source

    def __init__(self, value: weakref.ref[Any], source: Source) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        target = self.value()
        if target is None:
            tx.graph_break(gb.UNSUPPORTED_VALUE, "a weak reference to something that is gone")
        tx.capture.guards.add(self.source, "id", self.value)
        return tx.wrap(target, tx.capture.roots.object(target))

    def hash_key(self, tx: Tx) -> Any:
        tx.graph_break(gb.UNKNOWN_COMPARISON, "hash of a weak reference")

    def reconstruct(self, emit: Emitter) -> None:
        raise NotReconstructible(self)


class OpaqueVariable(VariableTracker):
    """An outside object that may be passed on and compared by identity, and nothing else."""

    def __init__(self, value: Any, source: Any) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def hash_key(self, tx: Tx) -> Any:
        kind: Any = type(self.value)
        if kind.__hash__ is object.__hash__:
            return self.value
        return super().hash_key(tx)

    def truth(self, tx: Tx) -> bool:
        kind = type(self.value)
        if not hasattr(kind, "__bool__") and not hasattr(kind, "__len__"):
            return True
        tx.graph_break(gb.UNKNOWN_COMPARISON, f"truth of a {kind.__name__}")

    def iterate(self, tx: Tx) -> VariableTracker:
        tx.graph_break(gb.UNSUPPORTED_VALUE, f"iterating a {type(self.value).__name__}")

    def next_item(self, tx: Tx) -> VariableTracker:
        tx.graph_break(gb.UNSUPPORTED_VALUE, f"next() of an outside {type(self.value).__name__}")

    def length(self, tx: Tx) -> VariableTracker:
        tx.graph_break(gb.UNSUPPORTED_VALUE, f"len() of a {type(self.value).__name__}")

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        kind = type(self.value)
        gw = gb.RANDOM_STATE if kind.__module__ == "random" else gb.UNSUPPORTED_VALUE
        tx.graph_break(gw, f"attribute {name!r} of a {kind.__module__}.{kind.__name__}")

    def reconstruct(self, emit: Emitter) -> None:
        raise NotReconstructible(self)
