"""A small world for container variables: a stand-in translator without bytecode, and a comparison with real Python.

A test writes a function `fn(b, *args)` over plain Python operations; `b(f)` gives a function or class to call. `same`
runs it twice, on real values and on variables behind operator-overloading handles, and compares results, exceptions,
changes of the arguments, and identity.
"""

from __future__ import annotations

import copy
import math
import operator
from types import SimpleNamespace
from typing import Any

import pytest

import graphwright.builtin_calls.attributes
import graphwright.builtin_calls.instance_checks
import graphwright.builtin_calls.iteration
import graphwright.builtin_calls.numeric
import graphwright.builtin_calls.text  # noqa: F401
from graphwright.builtin_calls.registry import find_handler, has_handler
from graphwright.exc import CodeLocation, GraphBreak, ObservedException
from graphwright.guards.guard_set import GuardSet
from graphwright.sources import SourceRoots
from graphwright.variables.base import LazyVariable, VariableTracker, realize_all, try_next
from graphwright.variables.constant import ConstantVariable, is_literal
from graphwright.variables.dict import DictVariable
from graphwright.variables.fresh import fresh
from graphwright.variables.iterator import IteratorVariable
from graphwright.variables.sequence import (
    DequeVariable,
    ListVariable,
    RangeVariable,
    SliceVariable,
    TupleVariable,
)
from graphwright.variables.set import FrozenSetVariable, SetVariable


class KnownVariable(VariableTracker):
    """A builtin function, a class, or an exception: known by itself."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def python_type(self):
        return type(self.value)

    def is_python_constant(self):
        return True

    def as_python_constant(self):
        return self.value

    def hash_key(self, tx):
        return self.value

    def call(self, tx, args, kwargs):
        handler = find_handler(self.value)
        owner = getattr(self.value, "__self__", None)
        if handler is None and isinstance(owner, str):
            return ConstantVariable(owner).call_method(tx, self.value.__name__, args, kwargs)
        if handler is None:
            descriptor_owner = getattr(self.value, "__objclass__", None)
            if descriptor_owner is not None:
                return args[0].realize().call_method(tx, self.value.__name__, args[1:], kwargs)
            tx.graph_break(_KIND, f"no handler for {self.value!r}")
        return handler(tx, realize_all(args), {k: v.realize() for k, v in kwargs.items()})

    def reconstruct(self, emit):
        emit.load_constant(self.value)


_KIND = SimpleNamespace(gw_id="GW0000")


class PythonFunctionVariable(VariableTracker):
    """A function of the test: runs on handles."""

    def __init__(self, fn: Any) -> None:
        self.value = fn

    def python_type(self):
        return type(self.value)

    def call(self, tx, args, kwargs):
        handles = [Handle(tx, a) for a in args]
        return tx.running(lambda: self.value(*handles, **{k: Handle(tx, v) for k, v in kwargs.items()}))

    def reconstruct(self, emit):
        emit.load_constant(self.value)


class ThingVariable(VariableTracker):
    """An object that is equal to itself only."""

    def __init__(self, value: Any, source: Any = None) -> None:
        self.value = value
        self.source = source

    def python_type(self):
        return type(self.value)

    def hash_key(self, tx):
        return self.value

    def reconstruct(self, emit):
        emit.load_constant(self.value)


class PythonObjectVariable(VariableTracker):
    """An object of a class of the test with special methods, which run on handles."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def python_type(self):
        return type(self.value)

    def getattr(self, tx, name):
        try:
            return tx.wrap(getattr(self.value, name))
        except AttributeError as error:
            tx.raise_(AttributeError, *error.args)

    def setattr(self, tx, name, value):
        setattr(self.value, name, Handle(tx, value))

    def call_method(self, tx, name, args, kwargs):
        method = getattr(type(self.value), name)
        return tx.running(lambda: method(self.value, *(Handle(tx, a) for a in args)))

    def iterate(self, tx):
        return self.call_method(tx, "__iter__", [], {})

    def next_item(self, tx):
        return self.call_method(tx, "__next__", [], {})

    def length(self, tx):
        return self.call_method(tx, "__len__", [], {})

    def truth(self, tx):
        for name in ("__bool__", "__len__"):
            if hasattr(type(self.value), name):
                return self.call_method(tx, name, [], {}).realize().truth(tx)
        return True

    def hash_key(self, tx):
        return self.value

    def reconstruct(self, emit):
        emit.load_constant(self.value)


class Effects:
    def __init__(self) -> None:
        self.mutated: dict[VariableTracker, None] = {}

    def mutate(self, vt: VariableTracker) -> None:
        if vt.source is not None:
            self.mutated[vt] = None

    def class_attribute(self, cls, name):
        return None


class ExceptionValue(VariableTracker):
    """The exception object of an ObservedException."""

    def __init__(self, kind, args) -> None:
        self.kind = kind
        self.args = args

    def python_type(self):
        return self.kind


class FakeTx:
    """Enough of a translator for variables that need no bytecode."""

    def __init__(self) -> None:
        self.roots = SourceRoots()
        self.capture = SimpleNamespace(effects=Effects(), guards=GuardSet(self.roots), roots=self.roots)
        self.known: dict[int, tuple[Any, VariableTracker]] = {}

    def wrap(self, value, source=None):
        if isinstance(value, Handle):
            return value._vt
        if isinstance(value, VariableTracker):
            return value
        if source is None:
            return self._wrap_new(value)
        if is_literal(value) and not isinstance(value, (tuple, frozenset)):
            self.capture.guards.add(source, "eq", value)
            return ConstantVariable(value, source)
        found = self.known.get(id(value))
        if found is None:
            found = self.known[id(value)] = (value, self._wrap_outside(value, source))
        return found[1]

    def _wrap_new(self, value):
        if is_literal(value) and not isinstance(value, (tuple, frozenset)):
            return ConstantVariable(value)
        made = fresh(self, value)
        if made is not None:
            return made
        if hasattr(value, "__code__") and not has_handler(value):
            return PythonFunctionVariable(value)
        if isinstance(value, type) or has_handler(value) or (callable(value) and type(value).__module__ == "builtins"):
            return KnownVariable(value)
        if isinstance(value, Exception):
            return KnownVariable(value)
        if type(value).__module__ in ("types", "typing"):
            return KnownVariable(value)
        if type(value) is Thing:
            return ThingVariable(value)
        return PythonObjectVariable(value)

    def _wrap_outside(self, value, source):
        kind = type(value)
        self.capture.guards.add(source, "type", kind)
        if isinstance(value, dict):
            return DictVariable.outside(value, source)
        if isinstance(value, tuple):
            return TupleVariable.outside(self, value, source)
        simple = {"list": ListVariable, "deque": DequeVariable, "set": SetVariable, "frozenset": FrozenSetVariable,
                  "range": RangeVariable, "slice": SliceVariable}  # fmt: skip
        if callable(value):
            return self.wrap(value)
        if kind.__name__ in simple:
            return simple[kind.__name__].outside(self, value, source)
        return ThingVariable(value, source)

    def lazy(self, value, source):
        return LazyVariable(value, source, self.wrap)

    def call(self, fn, args, kwargs=None):
        return fn.realize().call(self, args, kwargs or {})

    def graph_break(self, kind, detail):
        raise GraphBreak(kind, detail, CodeLocation("test", 1, "fn"))

    def raise_(self, kind, *args):
        raise ObservedException(ExceptionValue(kind, args))

    def running(self, body):
        """Run code of the test; a real exception in it is one of the traced program."""
        try:
            return self.wrap(body())
        except Traced as error:
            raise ObservedException(ExceptionValue(error.kind, error.args)) from None
        except (ObservedException, GraphBreak):
            raise
        except Exception as error:
            raise ObservedException(ExceptionValue(type(error), error.args)) from None


class Traced(Exception):
    """An exception of the traced program, on its way through test code."""

    def __init__(self, kind, args) -> None:
        super().__init__(*args)
        self.kind = kind


class Thing:
    """An object with identity."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __deepcopy__(self, memo):
        return self

    def __repr__(self) -> str:
        return f"Thing({self.name})"


class Handle:
    """A variable that test code uses like the value."""

    def __init__(self, tx: FakeTx, vt: VariableTracker) -> None:
        object.__setattr__(self, "_tx", tx)
        object.__setattr__(self, "_vt", vt.realize())

    def _do(self, fn, *args, **kwargs):
        tx = self._tx
        values = [tx.wrap(a) for a in args]
        try:
            result = tx.call(tx.wrap(fn), values, {k: tx.wrap(v) for k, v in kwargs.items()})
        except ObservedException as signal:
            raise as_real(tx, signal) from None
        return Handle(tx, result)

    def __getattr__(self, name):
        return self._do(getattr, self, name)

    def __setattr__(self, name, value):
        self._do(setattr, self, name, value)

    def __call__(self, *args, **kwargs):
        return self._do(self._vt, *args, **kwargs)

    def __bool__(self):
        return self._do(operator.truth, self)._vt.as_python_constant()

    def __iter__(self):
        tx = self._tx
        iterator = self._do(iter, self)._vt
        while True:
            try:
                item = try_next(tx, iterator)
            except ObservedException as signal:
                raise as_real(tx, signal) from None
            if item is None:
                return
            yield Handle(tx, item)

    def __setitem__(self, key, value):
        self._do(operator.setitem, self, key, value)

    def __delitem__(self, key):
        self._do(operator.delitem, self, key)

    def __index__(self):
        return self._vt.as_python_constant()

    def __hash__(self):
        return hash(self._vt.as_python_constant())


def _handle_operator(name: str, fn: Any, *, reflected: bool = False) -> None:
    def method(self, *args):
        operands = (args[0], self) if reflected else (self, *args)
        return self._do(fn, *operands)

    setattr(Handle, name, method)


for _stem in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "lshift",
    "rshift",
    "and",
    "or",
    "xor",
):
    _plain = getattr(operator, {"and": "and_", "or": "or_"}.get(_stem, _stem))
    _handle_operator(f"__{_stem}__", _plain)
    _handle_operator(f"__r{_stem}__", _plain, reflected=True)
    _handle_operator(f"__i{_stem}__", getattr(operator, f"i{_stem}"))
for _name in ("lt", "le", "eq", "ne", "gt", "ge", "getitem", "neg", "pos", "invert"):
    _handle_operator(f"__{_name}__", getattr(operator, _name))


def as_real(tx: FakeTx, signal: ObservedException) -> Exception:
    """The exception that test code sees."""
    value = signal.value
    args = [Builder(tx).real(tx.wrap(a)) if isinstance(a, VariableTracker) else a for a in value.args]
    try:
        return value.kind(*args)
    except TypeError:
        return Traced(value.kind, args)


class Builder:
    """Runs the code that variables emit, as it is emitted."""

    def __init__(self, tx: FakeTx, entry: dict[Any, Any] | None = None) -> None:
        self.tx = tx
        self.entry = entry or {}
        self.ops: list[Any] = []
        self.built: dict[int, tuple[VariableTracker, int]] = {}
        self.in_progress: set[int] = set()

    # -- recording, as graphwright.codegen does

    def __call__(self, vt):
        if vt.source is not None:
            self.load_source(vt.source)
            return
        vt = vt.realize()
        if vt.source is not None:
            self.load_source(vt.source)
        elif id(vt) in self.built:
            self.ops.append(("fetch", id(vt)))
        else:
            assert id(vt) not in self.in_progress, f"a cycle through {vt} has no shell"
            self.in_progress.add(id(vt))
            vt.reconstruct(self)
            self.in_progress.discard(id(vt))
            if id(vt) not in self.built:
                self.remember(vt)

    def op(self, name, *args):
        self.ops.append((name, *args))

    def load_constant(self, value):
        self.ops.append(("constant", value))

    def load_source(self, source):
        self.ops.append(("source", source))

    load_class = load_constant

    def remember(self, vt):
        self.built[id(vt)] = (vt, len(self.built))
        self.ops.append(("remember", id(vt)))

    # -- running

    def run(self) -> list[Any]:
        fetched = {op[1]: self._fetch(op[1]) for op in self.ops if op[0] == "source"}
        stack: list[Any] = []
        temps: dict[int, Any] = {}
        for name, *args in self.ops:
            if name == "constant":
                stack.append(args[0])
            elif name == "source":
                stack.append(fetched[args[0]])
            elif name == "fetch":
                stack.append(temps[args[0]])
            elif name == "remember":
                temps[args[0]] = stack[-1]
            else:
                _OPS[name](stack, *args)
        return stack

    def _fetch(self, source):
        if source.base is None:
            return self.entry[source.key] if source.accessor == "local" else source.key
        base = self._fetch(source.base)
        if source.accessor == "dict_key":
            return list(base)[source.key]
        if source.accessor == "attr":
            return getattr(base, source.key)
        return base[source.key]

    def real(self, vt) -> Any:
        """Build one value."""
        self(vt)
        return self.run()[-1]


def _pop_many(stack, count):
    if count == 0:
        return []
    values = stack[-count:]
    del stack[-count:]
    return values


def _op_call(stack, nargs, names=()):
    values = _pop_many(stack, nargs)
    fn = stack.pop()
    positional = values[: nargs - len(names)]
    stack.append(fn(*positional, **dict(zip(names, values[nargs - len(names) :], strict=True))))


def _op_list_extend(stack):
    items = stack.pop()
    stack[-1].extend(items)


def _op_store_subscr(stack):
    value, container, key = _pop_many(stack, 3)
    container[key] = value


def _op_swap(stack, depth=2):
    stack[-1], stack[-depth] = stack[-depth], stack[-1]


_OPS = {
    "build_list": lambda stack, n: stack.append(list(_pop_many(stack, n))),
    "build_tuple": lambda stack, n: stack.append(tuple(_pop_many(stack, n))),
    "build_set": lambda stack, n: stack.append(set(_pop_many(stack, n))),
    "build_map": lambda stack, n: stack.append(dict(zip(*[iter(_pop_many(stack, 2 * n))] * 2, strict=True))),
    "call": _op_call,
    "load_attr": lambda stack, name: stack.append(getattr(stack.pop(), name)),
    "pop_top": lambda stack: stack.pop(),
    "copy": lambda stack, depth=1: stack.append(stack[-depth]),
    "swap": _op_swap,
    "store_subscr": _op_store_subscr,
    "list_extend": _op_list_extend,
}


# ------------------------------------------------------------------ the comparison


def alike(a: Any, b: Any) -> bool:
    """Same types, same content, same order, all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
    if isinstance(a, dict):
        factory = getattr(a, "default_factory", None) is getattr(b, "default_factory", None)
        return factory and alike(list(a.items()), list(b.items()))
    if isinstance(a, (set, frozenset)):
        return alike(list(a), list(b)) if all(isinstance(v, (int, str)) for v in a) else a == b
    if isinstance(a, (list, tuple)) or type(a).__name__ == "deque":
        same_limit = getattr(a, "maxlen", None) == getattr(b, "maxlen", None)
        return same_limit and len(a) == len(b) and all(map(alike, a, b))
    if hasattr(a, "__next__"):
        return alike(list(a), list(b))
    if type(a).__name__.endswith(("dict_keys", "dict_values", "dict_items")) or "mappingproxy" in type(a).__name__:
        return alike(list(a), list(b))
    return bool(a == b)


def run_real(fn, args):
    args = copy.deepcopy(args)
    try:
        result = fn(lambda f: f, *args)
    except Exception as error:
        return ("raised", type(error), error.args), args, args
    return ("returned", result), args, args


def run_traced(fn, args, *, outside):
    args = copy.deepcopy(args)
    tx = FakeTx()
    if outside:
        vts = [tx.wrap(v, tx.roots.local(i, f"a{i}")) for i, v in enumerate(args)]
    else:
        vts = [tx.wrap(v) for v in args]
    try:
        result = fn(lambda f: Handle(tx, tx.wrap(f)), *(Handle(tx, v) for v in vts))
    except (Traced, Exception) as error:
        if isinstance(error, (ObservedException, GraphBreak, AssertionError)):
            raise
        kind = error.kind if isinstance(error, Traced) else type(error)
        result = None
        end = ("raised", kind, error.args)
    else:
        end = ("returned",)
    build = Builder(tx, dict(enumerate(args)))
    if end == ("returned",):
        build(tx.wrap(result))
    for vt in [] if outside else vts:
        build(vt)
    for vt in tx.capture.effects.mutated:
        vt.replay(build)
    stack = build.run()
    if end == ("returned",):
        end = ("returned", stack[0])
        stack = stack[1:]
    assert len(stack) == (0 if outside else len(vts)), "the code leaves the stack uneven"
    return end, (args if outside else stack), tx


def check_same(fn, *args):
    """Check that a function does on variables what it does on values, for arguments made inside and from outside."""
    for outside in (False, True):
        expected, expected_args, _ = run_real(fn, list(args))
        got, got_args, _ = run_traced(fn, list(args), outside=outside)
        where = "outside" if outside else "inside"
        assert alike(tuple(expected), tuple(got)), f"{where}: expected {expected}, got {got}"
        assert alike(list(expected_args), list(got_args)), f"{where}: arguments {expected_args}, got {got_args}"
    return expected


@pytest.fixture
def same():
    """See `check_same`."""
    return check_same


@pytest.fixture(scope="session")
def run_both():
    """`check_same` for tests that hypothesis runs."""
    return check_same


@pytest.fixture
def traced():
    """Run a function on outside arguments; gives how it ended, the arguments afterwards, and the translator."""

    def run(fn, *args):
        return run_traced(fn, list(args), outside=True)

    return run


@pytest.fixture
def tx():
    """A translator without a frame."""
    return FakeTx()


__all__ = ["IteratorVariable", "Thing"]
