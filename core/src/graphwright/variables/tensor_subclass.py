"""Tensors of subclasses whose `__torch_function__` is written in Python.

In the graph such a tensor is a plain one; around it stands what its class says. What torch asks the class, and how
(with which function, in which form of the arguments), torch itself tells: the operation runs on *probes*, empty tensors
of a subclass whose `__torch_function__` translates the user's.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

import graphwright.graph_breaks as gb
from graphwright.exc import GraphBreak, ObservedException
from graphwright.torch_compat import TENSOR_BASES, OpOverload, function_modes_active
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker
from graphwright.variables.dict import DictVariable
from graphwright.variables.graph_argument import Overriding
from graphwright.variables.method_table import MethodVariable
from graphwright.variables.object_model import bind_class_attribute, class_attribute
from graphwright.variables.sequence import ListVariable, TupleVariable
from graphwright.variables.tensor import TensorVariable
from graphwright.variables.tensor_methods import is_torch_function, rule

_ALIAS: OpOverload = torch.ops.aten.alias.default


class SubclassTensorVariable(VariableTracker):
    """A tensor of a subclass, made inside.

    Attributes:
        base: the plain tensor in the graph that it is another object for.
    """

    def __init__(self, base: TensorVariable, cls: type) -> None:
        self.base = base
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def as_proxy(self) -> Any:
        return Overriding(self)

    def hash_key(self, tx: Tx) -> Any:
        return self

    # ---------------------------------------------------------- attributes and calls

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name == "__class__":
            return tx.wrap(self.cls)
        found = class_attribute(tx, self.cls, name)
        if found is None:
            tx.raise_(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        if found.owner not in (*TENSOR_BASES, object):
            return bind_class_attribute(tx, found, self, tx.wrap(self.cls))
        if is_torch_function(found.raw) and callable(found.raw):
            return MethodVariable(self, name)
        return call_overridden(tx, builtins.getattr, [self, tx.wrap(name)], {})

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        found = class_attribute(tx, self.cls, name)
        if found is None or found.owner not in TENSOR_BASES:
            return tx.call(self.getattr(tx, name), args, kwargs)
        if name == "as_subclass":
            return as_subclass(tx, self.base, name, args, kwargs)
        return call_overridden(tx, operator.methodcaller, [self, *args], kwargs, method=name)

    # ---------------------------------------------------------- data model

    def iterate(self, tx: Tx) -> VariableTracker:
        # `Tensor.__iter__` asks no class itself; what it calls does.
        if not self.call_method(tx, "dim", [], {}).truth(tx):
            tx.raise_(TypeError, "iteration over a 0-d tensor")
        return self.call_method(tx, "unbind", [tx.wrap(0)], {}).realize().iterate(tx)

    def length(self, tx: Tx) -> VariableTracker:
        return self.call_method(tx, "__len__", [], {})

    def truth(self, tx: Tx) -> bool:
        return self.call_method(tx, "__bool__", [], {}).truth(tx)

    # ---------------------------------------------------------- codegen

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(_made_of)
        emit(self.base)
        emit.load_class(self.cls)
        emit.op("call", 2)

    def __repr__(self) -> str:
        return f"<{self.cls.__name__} around {self.base}>"


def _made_of(tensor: torch.Tensor, cls: type) -> torch.Tensor:
    return tensor.as_subclass(cls)


@rule("as_subclass")
def as_subclass(tx: Tx, tensor: TensorVariable, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Another object for the same memory, of the class given; torch asks no class about it."""
    given = [*args, *kwargs.values()]
    cls = given[0].realize().as_python_constant() if len(given) == 1 else None
    if not isinstance(cls, type) or not issubclass(cls, torch.Tensor):
        tx.graph_break(gb.TORCH_OP_FAILED, "as_subclass of something that is no class of tensors")
    base = tx.capture.output.call_op(tx, "call_function", _ALIAS, [tensor])
    return in_class(tx, base, cls)


def in_class(tx: Tx, base: VariableTracker, cls: type[torch.Tensor]) -> VariableTracker:
    """A plain tensor made just now, as one of a class."""
    if cls is torch.Tensor:
        return base
    if cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or issubclass(cls, torch.nn.Parameter):
        tx.graph_break(gb.TENSOR_SUBCLASS, f"a {cls.__qualname__}, whose operations are no plain ones below autograd")
    if not isinstance(base, TensorVariable):
        raise TypeError(f"{base} is no tensor")
    return SubclassTensorVariable(base, cls)


# ---------------------------------------------------------------- dispatch


def holds_override(value: Any) -> bool:
    """Whether arguments of a node hold a tensor whose class decides what the operation does."""
    if isinstance(value, Overriding):
        return True
    if isinstance(value, dict):
        return any(holds_override(item) for item in value.values())
    return isinstance(value, (tuple, list)) and any(holds_override(item) for item in value)


def call_overridden(
    tx: Tx, target: Callable[..., Any], args: Args, kwargs: Kwargs, *, method: str | None = None
) -> VariableTracker:
    """Do what torch does for an operation some of whose arguments are of a subclass: ask its `__torch_function__`.

    Args:
        target: the operation; `method` instead, where that is given.
    """
    if function_modes_active():
        tx.graph_break(gb.TENSOR_SUBCLASS, "tensor subclass under a torch function mode")
    question = _Question(tx)
    values = [question.probe(a) for a in args]
    named = {name: question.probe(v) for name, v in kwargs.items()}
    what = method or getattr(target, "__name__", repr(target))
    try:
        result = getattr(values[0], method)(*values[1:], **named) if method is not None else target(*values, **named)
    except (GraphBreak, ObservedException):
        raise
    except Exception as error:  # noqa: BLE001  eager will raise it too
        tx.graph_break(gb.TORCH_OP_FAILED, f"{what} raises {type(error).__name__}: {error}")
    if not question.asked:
        tx.graph_break(gb.TENSOR_SUBCLASS, f"{what}, which does not ask the tensor's class")
    return question.variable(result)


class _Question:
    """One operation that torch does on probes; it translates what torch then calls.

    Attributes:
        asked: whether torch called `__torch_function__`.
    """

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._cls: type | None = None
        self._probes: dict[int, tuple[torch.Tensor, VariableTracker]] = {}
        self._kind: Any = None
        self.asked = False

    def probe(self, variable: VariableTracker) -> Any:
        """What stands for an argument."""
        variable = variable.realize()
        if isinstance(variable, (SubclassTensorVariable, TensorVariable)):
            return self._tensor(variable)
        if isinstance(variable, TupleVariable) and variable.cls in (tuple, torch.Size):
            return variable.cls(self.probe(item) for item in variable.items)
        if isinstance(variable, ListVariable) and variable.python_type() is list:
            return [self.probe(item) for item in variable.items]
        if isinstance(variable, DictVariable) and variable.python_type() is dict:
            entries = variable.all_entries(self._tx)
            return {e.key.realize().as_python_constant(): self.probe(e.value) for e in entries}
        return variable.as_python_constant()

    def _tensor(self, variable: VariableTracker) -> torch.Tensor:
        for known, of in self._probes.values():
            if of is variable:
                return known
        made = torch.empty(0)
        if isinstance(variable, SubclassTensorVariable):
            if self._cls not in (None, variable.cls):
                self._tx.graph_break(gb.TENSOR_SUBCLASS, "an operation on tensors of several subclasses")
            if self._kind is None:
                self._cls = variable.cls
                answers: dict[str, Any] = {"__torch_function__": classmethod(self._ask)}
                self._kind = type(variable.cls.__name__, (torch.Tensor,), answers)
            made = made.as_subclass(self._kind)
        self._probes[id(made)] = (made, variable)
        return made

    def _ask(self, kind: type, function: Any, types: Any, *rest: Any) -> Any:
        self.asked = True
        tx = self._tx
        method = tx.wrap(self._cls).getattr(tx, "__torch_function__")
        kinds: Sequence[Any] = [self._cls if t is kind else t for t in types]
        given = [tx.wrap(function), TupleVariable([tx.wrap(t) for t in kinds]), *map(self.variable, rest)]
        answer = tx.call(method, given).realize()
        return answer.as_python_constant() if answer.is_python_constant() else answer

    def variable(self, value: Any) -> VariableTracker:
        """The variable of an argument or result that torch handed over."""
        if isinstance(value, VariableTracker):
            return value
        known = self._probes.get(id(value))
        if known is not None:
            return known[1]
        if isinstance(value, torch.Tensor):
            self._tx.graph_break(gb.TENSOR_SUBCLASS, "a tensor subclass in an operation that makes tensors of its own")
        if type(value) is tuple:
            return TupleVariable([self.variable(item) for item in value])
        if type(value) is list:
            return ListVariable([self.variable(item) for item in value])
        if type(value) is dict:
            made = DictVariable.new()
            for key, item in value.items():
                made.store(self._tx, self._tx.wrap(key), self.variable(item))
            return made
        return self._tx.wrap(value)
