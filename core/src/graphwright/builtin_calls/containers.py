"""Making containers, and the builtin functions over iterables that look at all items."""

from __future__ import annotations

import collections
import operator
import types
from typing import Any

from graphwright.builtin_calls.arithmetic import binary_op
from graphwright.builtin_calls.registry import handles
from graphwright.builtin_calls.special_methods import defines
from graphwright.variables.base import Kwargs, Tx, VariableTracker, drain, is_the
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.container import backing, try_snapshot
from graphwright.variables.dict import DictVariable, MappingProxyVariable, merge
from graphwright.variables.iterator_tools import iterator_of
from graphwright.variables.method_table import index_value, run_model, type_example, type_has
from graphwright.variables.sequence import DequeVariable, ListVariable, RangeVariable, SliceVariable, TupleVariable
from graphwright.variables.set import FrozenSetVariable, SetVariable, as_set
from graphwright.variables.set import copy_of as copy_of_set
from graphwright.variables.sorting import extreme, sorted_items

VTs = list[VariableTracker]


def refuse(tx: Tx, fn: Any, args: VTs, kwargs: Kwargs) -> None:
    """Let the function itself refuse arguments that it cannot take, for its message; nothing happens if it does not."""
    shown = [a.as_python_constant() if a.is_python_constant() else type_example(a.python_type()) for a in args]
    run_model(tx, fn, *shown, **dict.fromkeys(kwargs))


def check(tx: Tx, fn: Any, args: VTs, kwargs: Kwargs, least: int, most: int, names: tuple[str, ...] = ()) -> None:
    """Refuse a wrong number of arguments or wrong keywords as the function itself does."""
    if least <= len(args) <= most and set(kwargs) <= set(names):
        return
    run_model(tx, fn, *[None] * len(args), **dict.fromkeys(kwargs))
    tx.raise_(TypeError, f"{fn.__name__}() got arguments it does not take")


def items_of(tx: Tx, value: VariableTracker) -> VTs:
    """`list(value)` as variables."""
    return list(value.realize().unpack(tx))


# ------------------------------------------------------------------ constructors


@handles(list)
def make_list(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`list(iterable)`."""
    check(tx, list, args, kwargs, 0, 1)
    return ListVariable(items_of(tx, args[0]) if args else [])


@handles(tuple)
def make_tuple(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`tuple(iterable)`; an exact tuple is itself."""
    check(tx, tuple, args, kwargs, 0, 1)
    if args and args[0].python_type() is tuple:
        return args[0]
    return TupleVariable(items_of(tx, args[0]) if args else [])


@handles(dict)
def make_dict(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`dict(mapping_or_pairs, **names)`."""
    return _filled(tx, DictVariable.new(), dict, args, kwargs)


@handles(collections.OrderedDict)
def make_ordered_dict(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`OrderedDict(mapping_or_pairs, **names)`."""
    return _filled(tx, DictVariable.new(collections.OrderedDict), collections.OrderedDict, args, kwargs)


@handles(collections.defaultdict)
def make_default_dict(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`defaultdict(factory, mapping_or_pairs, **names)`."""
    factory = args[0] if args else tx.wrap(None)
    is_none = is_the(factory, None)
    if not is_none and not callable_value(factory):
        tx.raise_(TypeError, "first argument must be callable or None")
    made = DictVariable.new(collections.defaultdict, factory)
    return _filled(tx, made, collections.defaultdict, args[1:], kwargs)


def _filled(tx: Tx, made: DictVariable, cls: Any, args: VTs, kwargs: Kwargs) -> DictVariable:
    if len(args) > 1:
        run_model(tx, cls, *[None] * len(args))
    if args:
        merge(tx, made, args[0])
    for name, value in kwargs.items():
        made.store(tx, ConstantVariable(name), value)
    return made


def callable_value(vt: VariableTracker) -> bool:
    """`callable(value)`."""
    if vt.is_python_constant() and not isinstance(vt, (TupleVariable, FrozenSetVariable)):
        return callable(vt.as_python_constant())
    return type_has(vt.python_type(), "__call__")


@handles(dict.fromkeys)
def dict_fromkeys(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`dict.fromkeys(iterable, value)`."""
    return _from_keys(tx, dict, args, kwargs)


@handles(collections.OrderedDict.fromkeys)
def ordered_dict_fromkeys(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`OrderedDict.fromkeys(iterable, value)`."""
    args = [*args, *(kwargs[n] for n in ("iterable", "value") if n in kwargs)]
    return _from_keys(tx, collections.OrderedDict, args, {})


def _from_keys(tx: Tx, cls: Any, args: VTs, kwargs: Kwargs) -> VariableTracker:
    check(tx, cls.fromkeys, args, kwargs, 1, 2)
    made = DictVariable.new(cls)
    for key in drain(tx, iterator_of(tx, args[0])):
        made.store(tx, key, args[1] if len(args) > 1 else tx.wrap(None))
    return made


@handles(types.MappingProxyType)
def make_proxy(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`MappingProxyType(mapping)`."""
    check(tx, types.MappingProxyType, args, kwargs, 1, 1, ("mapping",))
    return MappingProxyVariable(args[0])


@handles(set)
def make_set(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`set(iterable)`."""
    check(tx, set, args, kwargs, 0, 1)
    found = as_set(tx, args[0]) if args else SetVariable.new()
    if found is not None:
        return copy_of_set(found)
    return SetVariable.of(tx, _set_items(tx, args[0]))


@handles(frozenset)
def make_frozenset(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`frozenset(iterable)`; an exact frozen set is itself."""
    check(tx, frozenset, args, kwargs, 0, 1)
    if args and args[0].python_type() is frozenset:
        return args[0]
    found = as_set(tx, args[0]) if args else SetVariable.new()
    if found is not None:
        return copy_of_set(found, FrozenSetVariable)
    return FrozenSetVariable.of(tx, _set_items(tx, args[0]))


def _set_items(tx: Tx, value: VariableTracker) -> Any:
    return value if isinstance(value, DictVariable) else drain(tx, iterator_of(tx, value))


@handles(collections.deque)
def make_deque(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`deque(iterable, maxlen)`."""
    check(tx, collections.deque, args, kwargs, 0, 2, ("iterable", "maxlen"))
    made = DequeVariable([])
    made.call_method(tx, "__init__", args, kwargs)
    return made


@handles(range)
def make_range(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`range(...)`: symbolic bounds become numbers."""
    check(tx, range, args, kwargs, 1, 3)
    return RangeVariable(run_model(tx, range, *(index_value(tx, a) for a in args)))


@handles(slice)
def make_slice(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`slice(...)`."""
    check(tx, slice, args, kwargs, 1, 3)
    none = tx.wrap(None)
    start, stop, step = [none, args[0], none] if len(args) == 1 else [*args, none][:3]
    return SliceVariable(start, stop, step)


# ------------------------------------------------------------------ functions over all items


@handles(len)
def length(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`len(x)`."""
    check(tx, len, args, kwargs, 1, 1)
    value = args[0]
    if not defines(tx, value.python_type(), "__len__"):
        tx.raise_(TypeError, f"object of type '{value.type_name()}' has no len()")
    result = value.length(tx).realize()
    if result.is_python_constant():
        number = result.as_python_constant()
        if type(number) is not int or number < 0:
            return tx.wrap(run_model(tx, len, _Sized(number)))
    return result


class _Sized:
    """Gives `len` something to refuse."""

    def __init__(self, count: Any) -> None:
        self.count = count

    def __len__(self) -> Any:
        return self.count


@handles(sorted)
def sorted_list(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`sorted(iterable, key=..., reverse=...)`."""
    check(tx, sorted, args, kwargs, 1, 1, ("key", "reverse"))
    return ListVariable(sorted_items(tx, _sortable_items(tx, args[0]), kwargs.get("key"), kwargs.get("reverse")))


def _sortable_items(tx: Tx, value: VariableTracker) -> VTs:
    """The items; those of a set whose order is not known, where sorting makes it irrelevant."""
    found = backing(value, SetVariable)
    if found is not None and not found.exact and found.order is None:
        values = try_snapshot(tx, found.unordered())
        if values is not None and len({type(v) for v in values}) == 1 and isinstance(values[0], (int, float, str)):
            return found.unordered()
    return items_of(tx, value)


@handles(min)
def minimum(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`min(...)`."""
    return _extreme(tx, min, args, kwargs)


@handles(max)
def maximum(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`max(...)`."""
    return _extreme(tx, max, args, kwargs)


def _extreme(tx: Tx, pick: Any, args: VTs, kwargs: Kwargs) -> VariableTracker:
    if not args or not set(kwargs) <= {"key", "default"}:
        run_model(tx, pick, *args, **kwargs)
    if len(args) > 1 and "default" in kwargs:
        run_model(tx, pick, 1, 2, default=None)
    items = items_of(tx, args[0]) if len(args) == 1 else args
    if not items:
        return kwargs["default"] if "default" in kwargs else run_model(tx, pick, ())
    return extreme(tx, pick, items, kwargs.get("key"))


@handles(sum)
def total(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """`sum(iterable, start)`; Python itself adds numbers known now: its sums of floats are more exact since 3.12."""
    check(tx, sum, args, kwargs, 1, 2, ("start",))
    start = args[1] if len(args) > 1 else kwargs.get("start", ConstantVariable(0))
    if issubclass(start.python_type(), (str, bytes, bytearray)):
        refuse(tx, sum, [tx.wrap(()), start], {})
    result = start
    numbers: list[Any] = []
    iterator = drain(tx, iterator_of(tx, args[0]))
    if _is_number(start):
        for item in iterator:
            item = item.realize()
            if not _is_number(item):
                result = binary_op(tx, operator.add, _sum_of(tx, numbers, start), item)
                break
            numbers.append(item.as_python_constant())
        else:
            return _sum_of(tx, numbers, start)
    for item in iterator:
        result = binary_op(tx, operator.add, result, item.realize())
    return result


def _sum_of(tx: Tx, numbers: list[Any], start: VariableTracker) -> VariableTracker:
    return tx.wrap(run_model(tx, sum, numbers, start.as_python_constant())) if numbers else start


def _is_number(vt: VariableTracker) -> bool:
    return not vt.varies and vt.is_python_constant() and vt.python_type() in (int, float, bool)


def _register_quantifier(fn: Any, decides: bool) -> None:
    @handles(fn)
    def quantifier(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
        check(tx, fn, args, kwargs, 1, 1)
        for item in drain(tx, iterator_of(tx, args[0])):
            if item.realize().truth(tx) is decides:
                return tx.wrap(decides)
        return tx.wrap(not decides)


_register_quantifier(any, True)
_register_quantifier(all, False)
