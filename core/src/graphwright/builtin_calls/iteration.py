"""The builtin functions that make and advance iterators, and those of itertools that work lazily on variables."""

from __future__ import annotations

import itertools
import operator
from typing import Any

from graphwright.builtin_calls.containers import callable_value, check, items_of
from graphwright.builtin_calls.registry import handles
from graphwright.builtin_calls.special_methods import defines, find_special, lift
from graphwright.variables.base import Kwargs, Tx, VariableTracker, try_next
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.iterator import LiveIterator, SequenceIterator
from graphwright.variables.iterator_tools import (
    CallIterator,
    ChainVariable,
    CountVariable,
    CycleVariable,
    EnumerateVariable,
    FilterVariable,
    GetterVariable,
    IsliceVariable,
    MapVariable,
    PoolVariable,
    RepeatVariable,
    ReversedVariable,
    ZipVariable,
    iterator_of,
)
from graphwright.variables.method_table import index_value, run_model, type_has
from graphwright.variables.sequence import TupleVariable

VTs = list[VariableTracker]


def _number(tx: Tx, value: VariableTracker) -> VariableTracker:
    """A position that must be a number; one that is symbolic stays so."""
    if value.is_python_constant():
        return ConstantVariable(run_model(tx, operator.index, value.as_python_constant()))
    if issubclass(value.python_type(), int):
        return value
    return ConstantVariable(run_model(tx, operator.index, index_value(tx, value)))


@handles(enumerate)
def enumerated(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`enumerate(iterable, start)`."""
    check(tx, enumerate, args, kwargs, 0, 2, ("iterable", "start"))
    if not args and "iterable" not in kwargs:
        run_model(tx, enumerate)
    iterable = args[0] if args else kwargs["iterable"]
    start = args[1] if len(args) > 1 else kwargs.get("start", ConstantVariable(0))
    return EnumerateVariable(iterator_of(tx, iterable), _number(tx, start))


@handles(zip)
def zipped(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`zip(*iterables, strict=...)`."""
    check(tx, zip, args, kwargs, 0, len(args), ("strict",))
    strict = "strict" in kwargs and kwargs["strict"].truth(tx)
    return ZipVariable([iterator_of(tx, a) for a in args], strict=strict)


@handles(map)
def mapped(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`map(function, *iterables)`."""
    if len(args) < 2 or kwargs:
        run_model(tx, map, *[None] * len(args), **dict.fromkeys(kwargs))
    return MapVariable(args[0], [iterator_of(tx, a) for a in args[1:]])


@handles(filter)
def filtered(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`filter(function, iterable)`."""
    check(tx, filter, args, kwargs, 2, 2)
    return FilterVariable(args[0], iterator_of(tx, args[1]))


@handles(reversed)
def reversed_iterator(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`reversed(sequence)`."""
    check(tx, reversed, args, kwargs, 1, 1)
    value = lift(tx, args[0])
    kind = value.python_type()
    method = find_special(tx, kind, "__reversed__")
    if method is not None and method[0] is not None:
        return value.call_method(tx, "__reversed__", [], {})
    if method is not None or not defines(tx, kind, "__getitem__") or type_has(kind, "keys"):
        tx.raise_(TypeError, f"'{value.type_name()}' object is not reversible")
    if isinstance(value, TupleVariable):
        return LiveIterator(value, lambda: value.items, reversed, step=-1)
    if isinstance(value, ConstantVariable):
        return SequenceIterator(value.unpack(tx)[::-1], reversed)
    count = index_value(tx, tx.call(tx.wrap(len), [value]))
    return ReversedVariable(value, count)


@handles(iter)
def make_iterator(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`iter(iterable)` and `iter(callable, sentinel)`."""
    check(tx, iter, args, kwargs, 1, 2)
    if len(args) == 2:
        if not callable_value(args[0]):
            tx.raise_(TypeError, "iter(v, w): v must be callable")
        return CallIterator(args[0], args[1])
    made = iterator_of(tx, args[0])
    if not defines(tx, made.python_type(), "__next__"):
        tx.raise_(TypeError, f"iter() returned non-iterator of type '{made.type_name()}'")
    return made


@handles(next)
def next_item(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`next(iterator, default)`."""
    check(tx, next, args, kwargs, 1, 2)
    iterator = args[0]
    if not defines(tx, iterator.python_type(), "__next__"):
        tx.raise_(TypeError, f"'{iterator.type_name()}' object is not an iterator")
    if len(args) == 1:
        return iterator.next_item(tx)
    item = try_next(tx, iterator)
    return args[1] if item is None else item


# ------------------------------------------------------------------ itertools


@handles(itertools.chain)
def chain(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`chain(*iterables)`."""
    if kwargs:
        run_model(tx, itertools.chain, **dict.fromkeys(kwargs))
    return ChainVariable(iterator_of(tx, TupleVariable(list(args))))


@handles(itertools.chain.from_iterable)
def chain_from_iterable(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`chain.from_iterable(iterable)`."""
    check(tx, itertools.chain.from_iterable, args, kwargs, 1, 1)
    return ChainVariable(iterator_of(tx, args[0]))


@handles(itertools.count)
def count(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`count(start, step)`."""
    check(tx, itertools.count, args, kwargs, 0, 2, ("start", "step"))
    start = args[0] if args else kwargs.get("start", ConstantVariable(0))
    step = args[1] if len(args) > 1 else kwargs.get("step", ConstantVariable(1))
    for value in (start, step):
        if value.is_python_constant():
            run_model(tx, itertools.count, value.as_python_constant())
    return CountVariable(start, step)


@handles(itertools.repeat)
def repeat(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`repeat(object, times)`."""
    check(tx, itertools.repeat, args, kwargs, 0, 2, ("object", "times"))
    item = args[0] if args else kwargs.get("object")
    if item is None:
        run_model(tx, itertools.repeat)
        raise AssertionError
    times = args[1] if len(args) > 1 else kwargs.get("times")
    number = None if times is None else run_model(tx, operator.index, index_value(tx, times))
    return RepeatVariable(item, number)


@handles(itertools.cycle)
def cycle(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`cycle(iterable)`."""
    check(tx, itertools.cycle, args, kwargs, 1, 1)
    return CycleVariable(iterator_of(tx, args[0]))


@handles(itertools.filterfalse)
def filterfalse(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`filterfalse(function, iterable)`."""
    check(tx, itertools.filterfalse, args, kwargs, 2, 2)
    return FilterVariable(args[0], iterator_of(tx, args[1]), keep=False)


@handles(itertools.islice)
def islice(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`islice(iterable, stop)` and `islice(iterable, start, stop, step)`."""
    check(tx, itertools.islice, args, kwargs, 2, 4)
    bounds = [index_value(tx, a) for a in args[1:]]
    run_model(tx, itertools.islice, (), *bounds)
    start, stop, step = (None, bounds[0], None) if len(bounds) == 1 else (*bounds, None)[:3]
    return IsliceVariable(iterator_of(tx, args[0]), start or 0, stop, 1 if step is None else step)


def _register_pool(fn: Any) -> None:
    @handles(fn)
    def combine(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
        check(tx, fn, args, kwargs, 1, 2, ("r", "iterable"))
        pool = items_of(tx, args[0])
        r = args[1] if len(args) > 1 else kwargs.get("r")
        sizes = [] if r is None else [index_value(tx, r)]
        return PoolVariable([pool], run_model(tx, fn, range(len(pool)), *sizes))


for _fn in (itertools.combinations, itertools.combinations_with_replacement, itertools.permutations):
    _register_pool(_fn)


@handles(itertools.product)
def product(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`product(*iterables, repeat=...)`."""
    check(tx, itertools.product, args, kwargs, 0, len(args), ("repeat",))
    times = index_value(tx, kwargs["repeat"]) if "repeat" in kwargs else 1
    pools = [items_of(tx, a) for a in args]
    positions = run_model(tx, itertools.product, *(range(len(p)) for p in pools), repeat=times)
    return PoolVariable(pools * times, positions)


# ------------------------------------------------------------------ getters


def _register_getter(kind: Any) -> None:
    @handles(kind)
    def make(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
        is_call = kind is operator.methodcaller
        names = args[:1] if is_call else args
        if not args or (kwargs and not is_call):
            run_model(tx, kind, *[None] * len(args), **dict.fromkeys(kwargs))
        if kind is not operator.itemgetter:
            for name in names:
                run_model(tx, kind, name.as_python_constant() if name.is_python_constant() else object())
        return GetterVariable(kind, list(args), kwargs)


for _kind in (operator.itemgetter, operator.attrgetter, operator.methodcaller):
    _register_getter(_kind)
