"""Python functions: those that exist outside, those made by the traced program, and bound methods."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.torch_compat import patched_by_torch_compile
from graphwright.trust import is_looked_into
from graphwright.variables.argument_binding import BindingError, Parameters, bind_arguments
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker, is_the
from graphwright.variables.cell import CellVariable
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.dict import DictVariable
from graphwright.variables.later_call import call_later
from graphwright.variables.marked_call import call_marked
from graphwright.variables.sequence import TupleVariable

_SINGLE_DISPATCH: Any = functools.singledispatch(lambda value: None)
_SINGLE_DISPATCH_CODE = _SINGLE_DISPATCH.__code__
_CODE_ATTRIBUTES = ("__name__", "__qualname__", "__module__", "__doc__")


def _docstring(code: types.CodeType) -> str | None:
    first = code.co_consts[0] if code.co_consts else None
    return first if isinstance(first, str) else None


class FunctionVariable(VariableTracker):
    """What outside functions and functions made inside have in common."""

    code: types.CodeType
    qualname: str

    def python_type(self) -> type:
        return types.FunctionType

    def globals_variable(self, tx: Tx) -> DictVariable:
        """The dict of the function's globals."""
        raise NotImplementedError

    def free_cells(self, tx: Tx) -> list[CellVariable]:
        """The closure, in the order of `co_freevars`."""
        raise NotImplementedError

    def default_of(self, tx: Tx, name: str, from_last: int) -> VariableTracker | None:
        """The default of a parameter; `from_last` counts positional parameters from the end, -1 is keyword-only."""
        raise NotImplementedError

    def bind(self, tx: Tx, args: Args, kwargs: Kwargs) -> dict[str, VariableTracker]:
        """The argument slots by name; raises TypeError in the traced program where arguments do not fit."""
        try:
            bound = bind_arguments(self.code, list(args), kwargs, lambda name, back: self.default_of(tx, name, back))
        except BindingError as error:
            tx.raise_(TypeError, str(error))
        parameters = Parameters.of(self.code)
        slots = bound.values
        if parameters.varargs is not None:
            slots[parameters.varargs] = TupleVariable(bound.rest)
        if parameters.varkw is not None:
            named = DictVariable.new()
            for name, value in bound.named.items():
                named.store(tx, ConstantVariable(name), value)
            slots[parameters.varkw] = named
        return slots

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.inline(self, args, kwargs)

    def hash_key(self, tx: Tx) -> Any:
        return self


CODE_RULES: dict[types.CodeType, Callable[[Tx, Any, Args, Kwargs], VariableTracker]] = {}
"""What calling a function with certain code does instead of running it; the builtin calls enter their rules here."""


class UserFunctionVariable(FunctionVariable):
    """A Python function that exists outside the frame."""

    def __init__(self, fn: types.FunctionType, source: Any = None) -> None:
        self.fn = fn
        self.source = source
        self.code = fn.__code__
        self.qualname = fn.__qualname__
        self._cells: list[CellVariable] | None = None

    def globals_variable(self, tx: Tx) -> DictVariable:
        namespace = self.fn.__globals__
        source = self.source.attr("__globals__") if self.source is not None else None
        found = tx.wrap(namespace, source or tx.capture.roots.constant(namespace))
        assert isinstance(found, DictVariable)
        return found

    def free_cells(self, tx: Tx) -> list[CellVariable]:
        if self._cells is None:
            self._cells = []
            for i, cell in enumerate(self.fn.__closure__ or ()):
                source = self.source.attr("__closure__").index(i) if self.source else tx.capture.roots.constant(cell)
                found = tx.wrap(cell, source)
                assert isinstance(found, CellVariable)
                self._cells.append(found)
        return self._cells

    def default_of(self, tx: Tx, name: str, from_last: int) -> VariableTracker | None:
        if from_last < 0:
            table = self.fn.__kwdefaults__
            if not table or name not in table:
                return None
            if self.source is None:
                return tx.wrap(table[name])
            return tx.lazy(table[name], self.source.attr("__kwdefaults__").dict_item(name))
        defaults = self.fn.__defaults__ or ()
        if from_last > len(defaults):
            return None
        position = len(defaults) - from_last
        if self.source is None:
            return tx.wrap(defaults[position])
        inside = self.source.attr("__defaults__")
        tx.capture.guards.add(inside, "len", len(defaults))
        return tx.lazy(defaults[position], inside.index(position))

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        if self.code is _SINGLE_DISPATCH_CODE and args:
            return self._dispatch(tx, args, kwargs)
        rule = CODE_RULES.get(self.code)
        if rule is not None:
            return rule(tx, self, args, kwargs)
        marked = call_marked(tx, self.fn, args, kwargs)
        if marked is not None:
            return marked
        later = call_later(tx, self.fn, self, args, kwargs)
        if later is not None:
            return later
        original = patched_by_torch_compile(self.fn)
        if original is not None:
            return tx.call(UserFunctionVariable(original, tx.capture.roots.constant(original)), args, kwargs)
        module = self.fn.__globals__.get("__name__")
        if isinstance(module, str) and not is_looked_into(module):
            kind = gb.PRINTING if module.partition(".")[0] in ("logging", "warnings") else gb.UNKNOWN_CALL
            tx.graph_break(kind, f"call of {module}.{self.qualname}, of a library that is not looked into")
        return super().call(tx, args, kwargs)

    def _dispatch(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        """A `functools.singledispatch` function: asked now, with a guard on what is registered."""
        table = self.free_variable(tx, "dispatch").free_variable(tx, "registry")
        assert isinstance(table, DictVariable)
        table.complete(tx)
        dispatcher: Any = self.fn
        chosen = dispatcher.dispatch(args[0].realize().python_type())
        for _, value in table.entries():
            if value.realize().hash_key(tx) is chosen:
                return tx.call(value, args, kwargs)
        tx.graph_break(gb.UNKNOWN_CALL, f"singledispatch to {chosen!r}, which is not in the registry")

    def free_variable(self, tx: Tx, name: str) -> Any:
        held = self.free_cells(tx)[self.code.co_freevars.index(name)].load(tx)
        assert held is not None
        return held.realize()

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name == "__dict__":
            if self.source is None:
                return tx.wrap(dict(self.fn.__dict__))
            return tx.wrap(self.fn.__dict__, self.source.attr("__dict__"))
        if name == "__globals__":
            return self.globals_variable(tx)
        if name == "__get__":
            tx.graph_break(gb.UNKNOWN_ATTRIBUTE, "__get__ of a function")
        try:
            value = getattr(self.fn, name)
        except AttributeError as error:
            if self.source is not None:
                tx.capture.guards.add(self.source.attr("__dict__"), "dict_lacks", name)
            tx.raise_(AttributeError, *error.args)
        if self.source is None or type(value) in (types.BuiltinMethodType, types.MethodWrapperType):
            return tx.wrap(value)
        return tx.wrap(value, self.source.attr(name))

    def setattr(self, tx: Tx, name: str, value: VariableTracker) -> None:
        if name.startswith("__"):
            tx.graph_break(gb.MUTATION_OF_UNKNOWN, f"setting {name!r} of the function {self.qualname}")
        namespace = self.getattr(tx, "__dict__").realize()
        assert isinstance(namespace, DictVariable)
        namespace.store(tx, ConstantVariable(name), value)

    def hash_key(self, tx: Tx) -> Any:
        return self.fn

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(self.fn)

    def __repr__(self) -> str:
        return f"<function {self.qualname}>"


class NestedFunctionVariable(FunctionVariable):
    """A function that the traced program made."""

    def __init__(
        self,
        code: types.CodeType,
        globals_variable: DictVariable,
        defaults: VariableTracker | None = None,
        kwdefaults: VariableTracker | None = None,
        closure: list[CellVariable] | None = None,
        annotations: VariableTracker | None = None,
    ) -> None:
        self.code = code
        self.qualname = code.co_qualname
        self._globals = globals_variable
        self._defaults = defaults
        self._kwdefaults = kwdefaults
        self._closure = closure or []
        self._annotations = annotations
        self.special: dict[str, VariableTracker] = {}
        self.attrs = DictVariable.new()

    def globals_variable(self, tx: Tx) -> DictVariable:
        return self._globals

    def free_cells(self, tx: Tx) -> list[CellVariable]:
        return self._closure

    def default_of(self, tx: Tx, name: str, from_last: int) -> VariableTracker | None:
        if from_last < 0:
            table = self._kwdefaults.realize() if self._kwdefaults is not None else None
            return table.lookup(tx, ConstantVariable(name)) if isinstance(table, DictVariable) else None
        if self._defaults is None:
            return None
        defaults = self._defaults.unpack(tx)
        return None if from_last > len(defaults) else defaults[len(defaults) - from_last]

    def _special_attribute(self, tx: Tx, name: str) -> VariableTracker | None:
        if name in self.special:
            return self.special[name]
        if name == "__dict__":
            return self.attrs
        if name == "__globals__":
            return self._globals
        if name == "__annotations__":
            self.special[name] = self._annotation_dict(tx)
            return self.special[name]
        constants = {
            "__name__": self.code.co_name,
            "__qualname__": self.qualname,
            "__code__": self.code,
            "__doc__": _docstring(self.code),
        }
        if name in constants:
            return tx.wrap(constants[name])
        if name == "__module__":
            return self._globals.lookup(tx, ConstantVariable("__name__")) or tx.wrap(None)
        held = {"__defaults__": self._defaults, "__kwdefaults__": self._kwdefaults}
        if name in held:
            return held[name] or tx.wrap(None)
        return None

    def _annotation_dict(self, tx: Tx) -> DictVariable:
        table = DictVariable.new()
        if isinstance(self._annotations, TupleVariable):
            flat = self._annotations.unpack(tx)
            for key, value in zip(flat[::2], flat[1::2], strict=True):
                table.store(tx, key.realize(), value)
        elif isinstance(self._annotations, DictVariable):
            return self._annotations
        return table

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        found = self._special_attribute(tx, name) or self.attrs.lookup(tx, ConstantVariable(name))
        if found is not None:
            return found
        if name == "__closure__":
            return TupleVariable(list(self._closure)) if self._closure else tx.wrap(None)
        if name.startswith("__") and hasattr(types.FunctionType, name):
            tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"attribute {name!r} of a function made inside")
        tx.raise_(AttributeError, f"'function' object has no attribute '{name}'")

    def setattr(self, tx: Tx, name: str, value: VariableTracker) -> None:
        value = value.realize()
        if name == "__defaults__":
            self._defaults = None if is_the(value, None) else value
        elif name == "__kwdefaults__":
            self._kwdefaults = None if is_the(value, None) else value
        elif name in ("__annotations__", *_CODE_ATTRIBUTES):
            self.special[name] = value
            if name == "__qualname__" and value.is_python_constant():
                self.qualname = value.as_python_constant()
        elif name.startswith("__") and hasattr(types.FunctionType, name):
            tx.graph_break(gb.MUTATION_OF_UNKNOWN, f"setting {name!r} of a function made inside")
        else:
            self.attrs.store(tx, ConstantVariable(name), value)

    def delattr(self, tx: Tx, name: str) -> None:
        if self.attrs.remove(tx, ConstantVariable(name)) is None:
            tx.raise_(AttributeError, f"'function' object has no attribute '{name}'")

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(types.FunctionType)
        emit.load_constant(self.code)
        emit(self._globals)
        emit.load_constant(self.code.co_name)
        if self._defaults is None:
            emit.load_constant(None)
        else:
            emit(self._defaults)
        for cell in self._closure:
            emit(cell)
        if self._closure:
            emit.op("build_tuple", len(self._closure))
        else:
            emit.load_constant(None)
        emit.op("call", 5)
        emit.remember(self)
        self._restore_attributes(emit)

    def _restore_attributes(self, emit: Emitter) -> None:
        values: list[tuple[str, VariableTracker | None]] = [*self.special.items(), ("__kwdefaults__", self._kwdefaults)]
        if "__annotations__" not in self.special and self._annotations is not None:
            flat = self._annotations
            if isinstance(flat, DictVariable):
                values.append(("__annotations__", flat))
            elif isinstance(flat, TupleVariable):
                self._restore_annotations(emit, flat)
        if "__qualname__" not in self.special:
            values.append(("__qualname__", ConstantVariable(self.qualname)))
        values += [(key.as_python_constant(), value) for key, value in self.attrs.entries()]
        for name, value in values:
            if value is not None:
                emit.op("copy", 1)
                emit(value)
                emit.op("swap", 2)
                emit.op("store_attr", name)

    def _restore_annotations(self, emit: Emitter, flat: TupleVariable) -> None:
        emit.op("copy", 1)
        for item in flat.items:
            emit(item)
        emit.op("build_map", len(flat.items) // 2)
        emit.op("swap", 2)
        emit.op("store_attr", "__annotations__")

    def __repr__(self) -> str:
        return f"<function {self.qualname} made inside>"


class BoundMethodVariable(VariableTracker):
    """A function bound to an object."""

    def __init__(self, function: VariableTracker, owner: VariableTracker, source: Any = None) -> None:
        self.function = function
        self.owner = owner
        self.source = source

    def python_type(self) -> type:
        return types.MethodType

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.call(self.function, [self.owner, *args], kwargs)

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name == "__func__":
            return self.function
        if name == "__self__":
            return self.owner
        return self.function.realize().getattr(tx, name)

    def hash_key(self, tx: Tx) -> Any:
        return (BoundMethodVariable, self.function.realize().hash_key(tx), self.owner.realize())

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(types.MethodType)
        emit(self.function)
        emit(self.owner)
        emit.op("call", 2)

    def __repr__(self) -> str:
        return f"<method {self.function} of {self.owner}>"
