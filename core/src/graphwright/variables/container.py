"""What the variables of all builtin containers share: methods by table, attributes, text, shadows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

import torch

import graphwright.graph_breaks as gb
from graphwright.exc import NotConstant
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker
from graphwright.variables.comparison import COMPARISONS, same_object
from graphwright.variables.method_table import MethodTable, MethodVariable, run_model
from graphwright.variables.standin import Shown

Leaf = Callable[[VariableTracker], Any]
V = TypeVar("V", bound=VariableTracker)


class ContainerVariable(VariableTracker):
    """A builtin container, exact or as the content of an object of a subclass."""

    methods: ClassVar[MethodTable]
    cls: type

    def python_type(self) -> type:
        return self.cls

    def type_name(self) -> str:
        return type_label(self.cls)

    def size(self, tx: Tx) -> int:
        """The number of items."""
        raise NotImplementedError

    def shadow(self, tx: Tx, leaf: Leaf, memo: dict[int, Any]) -> Any:
        """A real container of the same shape, with `leaf` applied to what is no container."""
        raise NotImplementedError

    # ---------------------------------------------------------- data model

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name in self.methods:
            return MethodVariable(self, name)
        if name == "__class__":
            return tx.wrap(self.cls)
        if name == "__doc__":
            return tx.wrap(self.cls.__doc__)
        if hasattr(self.cls, name):
            tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"attribute {name!r} of a {self.type_name()}")
        tx.raise_(AttributeError, f"'{self.type_name()}' object has no attribute '{name}'")

    def setattr(self, tx: Tx, name: str, value: VariableTracker) -> None:
        if self.cls.__dictoffset__ or name == "__class__":
            tx.graph_break(gb.MUTATION_OF_UNKNOWN, f"setting attribute {name!r} of a {self.type_name()}")
        run_model(tx, setattr, self.shadow(tx, _text_leaf, {}), name, None)

    def delattr(self, tx: Tx, name: str) -> None:
        if self.cls.__dictoffset__ or name == "__class__":
            tx.graph_break(gb.MUTATION_OF_UNKNOWN, f"deleting attribute {name!r} of a {self.type_name()}")
        run_model(tx, delattr, self.shadow(tx, _text_leaf, {}), name)

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.methods.call(tx, self, name, args, kwargs)

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        tx.raise_(TypeError, f"'{self.type_name()}' object is not callable")

    def next_item(self, tx: Tx) -> VariableTracker:
        tx.raise_(TypeError, f"'{self.type_name()}' object is not an iterator")

    def truth(self, tx: Tx) -> bool:
        return self.size(tx) > 0

    def length(self, tx: Tx) -> VariableTracker:
        return tx.wrap(self.size(tx))

    def hash_key(self, tx: Tx) -> Any:
        tx.raise_(TypeError, f"unhashable type: '{self.type_name()}'")


_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8


def type_label(cls: type) -> str:
    """How CPython's messages name a type (`tp_name`): with its module where it is written in C outside of builtins."""
    in_c = not cls.__flags__ & _HEAP_TYPE or cls.__flags__ & _IMMUTABLE_TYPE
    return f"{cls.__module__}.{cls.__name__}" if in_c and cls.__module__ != "builtins" else cls.__name__


def _text_leaf(vt: VariableTracker) -> Any:
    return 0


def shadow_of(tx: Tx, vt: VariableTracker, leaf: Leaf, memo: dict[int, Any]) -> Any:
    """The shadow of a container variable, or what `leaf` makes of any other."""
    vt = vt.realize()
    if not isinstance(vt, ContainerVariable):
        return leaf(vt)
    found = memo.get(id(vt))
    return vt.shadow(tx, leaf, memo) if found is None else found


def snapshot(tx: Tx, vt: VariableTracker) -> Any:
    """A real copy of a value made of constants and builtin containers of them.

    Raises:
        NotConstant: something else is inside.
    """
    return shadow_of(tx, vt, _constant_leaf, {})


def _constant_leaf(vt: VariableTracker) -> Any:
    return vt.as_python_constant()


def try_snapshot(tx: Tx, vts: Iterable[VariableTracker]) -> list[Any] | None:
    """Real copies of all values, or None where one is no constant."""
    try:
        return [snapshot(tx, vt) for vt in vts]
    except NotConstant:
        return None


def container_repr(tx: Tx, vt: VariableTracker) -> str:
    """`repr` of a container, by Python's own on a shadow that holds the items' texts."""

    def text(item: VariableTracker) -> Shown:
        shown = tx.call(tx.wrap(repr), [item]).realize()
        if not shown.is_python_constant():
            tx.graph_break(gb.DATA_DEPENDENT_VALUE, f"text of a {item.type_name()}")
        return Shown(shown.as_python_constant())

    return repr(shadow_of(tx, vt, text, {}))


def backing(vt: VariableTracker, kind: type[V]) -> V | None:
    """The variable itself where it is of a kind, or the storage of an object whose class derives from that builtin."""
    vt = vt.realize()
    if isinstance(vt, kind):
        return vt
    storage = getattr(vt, "storage", None)
    return storage if isinstance(storage, kind) else None


def holds_others(items: Iterable[VariableTracker]) -> bool:
    """Whether something made inside, other than constants and tensors, is among the items: maybe part of a cycle."""
    return any(
        item.source is None and not item.is_python_constant() and not issubclass(item.python_type(), torch.Tensor)
        for item in items
    )


def emit_call(emit: Emitter, fn: Any, *args: Callable[[], None]) -> None:
    """Emit a call of a constant for its effect."""
    emit.load_constant(fn)
    for arg in args:
        arg()
    emit.op("call", len(args))
    emit.op("pop_top")


# ------------------------------------------------------------------ methods that every container has


def define_common(table: MethodTable) -> None:
    """Enter the special methods that only depend on others."""

    @table.define("__len__")
    def length(tx: Tx, self: ContainerVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.length(tx)

    @table.define("__iter__")
    def iterate(tx: Tx, self: ContainerVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.iterate(tx)

    @table.define("__repr__", "__str__")
    def text(tx: Tx, self: ContainerVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.wrap(container_repr(tx, self))

    @table.define("__format__", least=1)
    def formatted(tx: Tx, self: ContainerVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.wrap(run_model(tx, format, Shown(container_repr(tx, self)), args[0].realize().as_python_constant()))

    @table.define("__hash__")
    def hash_(tx: Tx, self: ContainerVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.call(tx.wrap(hash), [self])

    @table.define("__init_subclass__", "__getstate__", "__sizeof__", most=-1)
    def unknown(tx: Tx, self: ContainerVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        tx.graph_break(gb.UNKNOWN_CALL, f"internal method of a {self.type_name()}")

    for name in ("__getattribute__", "__setattr__", "__delattr__"):
        table.define(name, least=1, most=2)(_attribute_method(name))


def _attribute_method(name: str) -> Any:
    def method(tx: Tx, self: ContainerVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        attribute = args[0].realize().as_python_constant()
        if name == "__getattribute__":
            return self.getattr(tx, attribute)
        if name == "__setattr__":
            self.setattr(tx, attribute, args[1])
        else:
            self.delattr(tx, attribute)
        return tx.wrap(None)

    return method


CompareItems = Callable[[Tx, Callable[[Any, Any], Any], Any, VariableTracker], VariableTracker | None]


def define_comparisons(table: MethodTable, rule: CompareItems) -> None:
    """Enter the six comparison methods; `rule` gives None for NotImplemented."""
    for name, op in COMPARISONS.items():
        table.define(name, least=1)(_comparison_method(op, rule))


def _comparison_method(op: Callable[[Any, Any], Any], rule: CompareItems) -> Any:
    def method(tx: Tx, self: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        result = rule(tx, op, self, args[0].realize())
        return tx.wrap(NotImplemented) if result is None else result

    return method


def identity_comparison(tx: Tx, op: Any, a: VariableTracker, b: VariableTracker) -> VariableTracker | None:
    """How objects compare that define no comparison."""
    if op in (operator.eq, operator.ne) and same_object(tx, a, b):
        return tx.wrap(op is operator.eq)
    return None
