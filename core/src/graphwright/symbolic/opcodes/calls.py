"""Calls, and loading what is about to be called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphwright.bytecode.versions import NULL_BELOW_CALLABLE
from graphwright.symbolic.dispatch import opcode
from graphwright.symbolic.frame_state import NULL, MethodReference
from graphwright.variables.base import Kwargs, VariableTracker
from graphwright.variables.dict import DictVariable

if TYPE_CHECKING:
    from graphwright.bytecode import Instruction
    from graphwright.symbolic.translator import Translator


# ------------------------------------------------------------------ loading callables


def load_method_of(tx: Translator, owner: VariableTracker, name: str) -> VariableTracker:
    """`owner.name`, about to be called: no bound method is made where the owner's kind calls methods by name."""
    if getattr(owner, "methods_by_name", False) and callable(getattr(owner.python_type(), name, None)):
        return MethodReference(owner, name)
    return owner.getattr(tx, name)


def _push_callable(tx: Translator, value: VariableTracker) -> None:
    """Push a callable with the NULL that stands for "no self", in the order of this version."""
    if NULL_BELOW_CALLABLE:
        tx.push(NULL)
        tx.push(value)
    else:
        tx.push(value)
        tx.push(NULL)


@opcode("LOAD_METHOD", until=(3, 12))
def load_method(tx: Translator, inst: Instruction) -> None:
    """Read an attribute that is called next.

    Stack: (owner -- NULL, method)
    """
    _push_callable(tx, load_method_of(tx, tx.pop(), inst.argval))


@opcode("LOAD_ATTR", since=(3, 12))
def load_attr(tx: Translator, inst: Instruction) -> None:
    """Read an attribute; the low bit of the argument says that it is called next.

    Stack: (owner -- value) or (owner -- NULL, method), from 3.13 on (owner -- method, NULL)
    """
    assert inst.arg is not None
    owner = tx.pop()
    if inst.arg & 1:
        _push_callable(tx, load_method_of(tx, owner, inst.argval))
    else:
        tx.push(owner.getattr(tx, inst.argval))


@opcode("LOAD_SUPER_ATTR", since=(3, 12))
def load_super_attr(tx: Translator, inst: Instruction) -> None:
    """`super().name` or `super(cls, obj).name`; `super` may be the user's own.

    Bit 0 of the argument: called next. Bit 1: `super` was given two arguments.
    Stack: (super, cls, obj -- value) or (super, cls, obj -- NULL, method), from 3.13 on the NULL last
    """
    assert inst.arg is not None
    super_, cls, obj = tx.popn(3)
    super_ = super_.realize()
    is_builtin = super_.is_python_constant() and super_.as_python_constant() is super
    arguments = [cls, obj] if inst.arg & 2 or is_builtin else []
    value = tx.call(super_, arguments).realize().getattr(tx, inst.argval)
    if inst.arg & 1:
        _push_callable(tx, value)
    else:
        tx.push(value)


# ------------------------------------------------------------------ calling


@opcode("PRECALL", until=(3, 12))
def precall(tx: Translator, inst: Instruction) -> None:
    """Do nothing: it only prepares specialisation.

    Stack: (--)
    """


@opcode("KW_NAMES", until=(3, 13))
def kw_names(tx: Translator, inst: Instruction) -> None:
    """Announce the names of the last arguments of the coming CALL.

    Stack: (--)
    """
    tx.kw_names = inst.argval


def _pop_callee(tx: Translator, args: list[VariableTracker]) -> tuple[VariableTracker, list[VariableTracker]]:
    """Pop callable and `self` or NULL; a `self` goes before the arguments."""
    below, above = tx.popn(2)
    if NULL_BELOW_CALLABLE:
        return (above, args) if below is NULL else (below, [above, *args])
    return (below, args) if above is NULL else (below, [above, *args])


def _call_with_names(tx: Translator, count: int, names: tuple[str, ...]) -> None:
    """Call with `count` arguments on the stack, the last ones by name."""
    values = tx.popn(count)
    callee, values = _pop_callee(tx, values)
    split = len(values) - len(names)
    tx.called = callee.realize()
    result = tx.call(callee, values[:split], dict(zip(names, values[split:], strict=True)))
    tx.called = None
    tx.push(result)


@opcode("CALL")
def call(tx: Translator, inst: Instruction) -> None:
    """Call with positional arguments and, before 3.13, those that KW_NAMES announced.

    Stack: (NULL, callable, arg, ... -- result) or (callable, self, arg, ... -- result)
    """
    assert inst.arg is not None
    names, tx.kw_names = tx.kw_names, ()
    _call_with_names(tx, inst.arg, names)


@opcode("CALL_KW", since=(3, 13))
def call_kw(tx: Translator, inst: Instruction) -> None:
    """Call with keyword arguments, whose names are on top.

    Stack: (callable, self or NULL, arg, ..., names -- result)
    """
    assert inst.arg is not None
    names = tuple(name.realize().as_python_constant() for name in tx.pop().unpack(tx))
    _call_with_names(tx, inst.arg, names)


@opcode("CALL_FUNCTION_EX")
def call_function_ex(tx: Translator, inst: Instruction) -> None:
    """Call with a sequence of arguments and perhaps a dict of keyword arguments.

    Stack: (NULL, callable, args, kwargs? -- result), from 3.13 on (callable, NULL, args, kwargs? -- result)
    """
    assert inst.arg is not None
    named = tx.pop() if inst.arg & 1 else None
    positional = tx.pop()
    callee, _ = _pop_callee(tx, [])
    args = star_arguments(tx, callee, positional)
    tx.push(tx.call(callee, args, {} if named is None else keyword_arguments(tx, named)))


def star_arguments(tx: Translator, callee: VariableTracker, values: VariableTracker) -> list[VariableTracker]:
    """The items of what stands after `*` in a call."""
    kind = values.python_type()
    if not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
        name = callable_name(callee)
        tx.raise_(TypeError, f"{name} argument after * must be an iterable, not {values.type_name()}")
    return list(values.unpack(tx))


def keyword_arguments(tx: Translator, mapping: VariableTracker) -> Kwargs:
    """The entries of the dict that a call with `**` builds."""
    assert isinstance(mapping, DictVariable)
    mapping.complete(tx)  # after a graph break it may be one that was built before
    named: dict[str, VariableTracker] = {}
    for key, value in mapping.entries():
        name = key.as_python_constant() if key.is_python_constant() else None
        if not isinstance(name, str):
            tx.raise_(TypeError, "keywords must be strings")
        named[name] = value
    return named


def callable_name(callee: VariableTracker) -> str:
    """How an error message about its arguments calls a function.

    Source: `_PyObject_FunctionStr` in CPython's Objects/object.c: ``module.qualname()``, without builtins' module.
    """
    callee = callee.realize()
    function: Any = getattr(callee, "function", callee)
    code = getattr(function.realize(), "code", None)
    if code is not None:
        module = getattr(getattr(function.realize(), "fn", None), "__module__", None)
        qualname = getattr(function.realize(), "qualname", code.co_qualname)
        return f"{module}.{qualname}()" if module and module != "builtins" else f"{qualname}()"
    if callee.is_python_constant():
        value = callee.as_python_constant()
        qualname, module = getattr(value, "__qualname__", None), getattr(value, "__module__", None)
        if qualname:
            return f"{module}.{qualname}()" if module and module != "builtins" else f"{qualname}()"
    return callee.type_name()
