"""Variables of new containers that Python's own functions returned at capture time."""

from __future__ import annotations

import collections
import types
from typing import Any

from graphwright.variables.base import Tx, VariableTracker
from graphwright.variables.dict import DictVariable, MappingProxyVariable
from graphwright.variables.iterator import SequenceIterator
from graphwright.variables.sequence import (
    DequeVariable,
    ListVariable,
    RangeVariable,
    SliceVariable,
    TupleVariable,
    is_tuple_class,
)
from graphwright.variables.set import FrozenSetVariable, SetVariable


def fresh(tx: Tx, value: Any) -> VariableTracker | None:
    """The variable of a container without a source, as if the traced program had made it; None for other values."""
    kind = type(value)
    if kind is list:
        return ListVariable([tx.wrap(v) for v in value])
    if is_tuple_class(kind) if isinstance(value, tuple) else False:
        return TupleVariable([tx.wrap(v) for v in value], cls=kind)
    if kind in (dict, collections.OrderedDict, collections.defaultdict):
        return _fresh_dict(tx, kind, value)
    if kind in (set, frozenset):
        members = {vt.hash_key(tx): vt for vt in (tx.wrap(v).realize() for v in value)}
        keys_are_items = all(k is v for k, v in zip(members, value, strict=True))
        model = value.copy() if keys_are_items else kind(members)
        return SetVariable(model, members) if kind is set else FrozenSetVariable(model, members)
    if kind is collections.deque:
        return DequeVariable([tx.wrap(v) for v in value], maxlen=value.maxlen)
    return _fresh_other(tx, kind, value)


def _fresh_dict(tx: Tx, kind: type, value: Any) -> DictVariable:
    factory = tx.wrap(value.default_factory) if kind is collections.defaultdict else None
    result = DictVariable.new(kind, factory)
    for key, item in value.items():
        result.store(tx, tx.wrap(key), tx.wrap(item))
    return result


def _fresh_other(tx: Tx, kind: type, value: Any) -> VariableTracker | None:
    if kind is range:
        return RangeVariable(value)
    if kind is slice:
        return SliceVariable(tx.wrap(value.start), tx.wrap(value.stop), tx.wrap(value.step))
    if kind is types.MappingProxyType:
        return MappingProxyVariable(_fresh_dict(tx, dict, dict(value)))
    if kind is type(iter(())):
        return SequenceIterator([tx.wrap(v) for v in value], kind)
    return None
