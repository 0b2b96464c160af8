"""Ranges and slices."""

from __future__ import annotations

import operator
import sys
from typing import Any

from graphwright.sources import Source
from graphwright.variables.base import Args, Emitter, Kwargs, Tx, VariableTracker
from graphwright.variables.comparison import compare_sequences, equal
from graphwright.variables.container import ContainerVariable, Leaf, define_common, define_comparisons, shadow_of
from graphwright.variables.iterator import IteratorVariable
from graphwright.variables.method_table import MethodTable, index_value, run_model

_SLICES_HAVE_HASHES: bool = sys.version_info >= (3, 12)
RANGE = MethodTable(range)
SLICE = MethodTable(slice)


class RangeVariable(ContainerVariable):
    """A range whose bounds are known."""

    methods = RANGE
    cls = range

    def __init__(self, value: range, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    @classmethod
    def outside(cls, tx: Tx, value: range, source: Source) -> RangeVariable:
        """The variable of a range that came from outside, with guards on its bounds."""
        for name in ("start", "stop", "step"):
            tx.capture.guards.add(source.attr(name), "eq", getattr(value, name))
        return cls(value, source)

    def is_python_constant(self) -> bool:
        return True

    def as_python_constant(self) -> range:
        return self.value

    def size(self, tx: Tx) -> int:
        count: int = run_model(tx, len, self.value)
        return count

    def truth(self, tx: Tx) -> bool:
        return bool(self.value)

    def hash_key(self, tx: Tx) -> Any:
        return self.value

    def shadow(self, tx: Tx, leaf: Leaf, memo: dict[int, Any]) -> Any:
        return self.value

    def iterate(self, tx: Tx) -> VariableTracker:
        return RangeIterator(self.value)

    def unpack(self, tx: Tx) -> list[VariableTracker]:
        return [tx.wrap(v) for v in self.value]

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name in ("start", "stop", "step"):
            return tx.wrap(getattr(self.value, name))
        return super().getattr(tx, name)

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(range)
        for part in (self.value.start, self.value.stop, self.value.step):
            emit.load_constant(part)
        emit.op("call", 3)

    def __repr__(self) -> str:
        return f"<{self.value!r}>"


class RangeIterator(IteratorVariable):
    """An iterator over a range, or over a reversed one."""

    exact_type = type(iter(range(0)))

    def __init__(self, value: range) -> None:
        self.value = value

    def next_or_none(self, tx: Tx) -> VariableTracker | None:
        if not self.value:
            return None
        item = self.value[0]
        self.value = self.value[1:]
        return tx.wrap(item)

    def remaining(self, tx: Tx) -> int:
        return len(self.value)

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(iter)
        RangeVariable(self.value).reconstruct(emit)
        emit.op("call", 1)


define_common(RANGE)


@RANGE.define("__getitem__", least=1)
def _range_item(tx: Tx, self: RangeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    key = args[0].realize()
    index = slice_value(tx, key) if isinstance(key, SliceVariable) else index_value(tx, key)
    return tx.wrap(run_model(tx, operator.getitem, self.value, index))


@RANGE.define("__contains__", least=1)
def _range_contains(tx: Tx, self: RangeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    wanted = args[0].realize()
    if wanted.is_python_constant():
        return tx.wrap(run_model(tx, operator.contains, self.value, wanted.as_python_constant()))
    return tx.wrap(any(equal(tx, item, wanted) for item in self.unpack(tx)))


@RANGE.define("index", least=1)
def _range_index(tx: Tx, self: RangeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(run_model(tx, self.value.index, index_value(tx, args[0])))


@RANGE.define("count", least=1)
def _range_count(tx: Tx, self: RangeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(run_model(tx, self.value.count, index_value(tx, args[0])))


@RANGE.define("__reversed__")
def _range_reversed(tx: Tx, self: RangeVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return RangeIterator(self.value[::-1])


def _compare_ranges(tx: Tx, op: Any, self: RangeVariable, other: VariableTracker) -> VariableTracker | None:
    if op in (operator.eq, operator.ne) and isinstance(other, RangeVariable):
        return tx.wrap(op(self.value, other.value))
    return None


define_comparisons(RANGE, _compare_ranges)


# ------------------------------------------------------------------ slices


class SliceVariable(ContainerVariable):
    """A slice; its parts may be any values."""

    methods = SLICE
    cls = slice

    def __init__(
        self, start: VariableTracker, stop: VariableTracker, step: VariableTracker, source: Source | None = None
    ) -> None:
        self.start = start
        self.stop = stop
        self.step = step
        self.source = source

    @classmethod
    def outside(cls, tx: Tx, value: slice, source: Source) -> SliceVariable:
        """The variable of a slice that came from outside."""
        start, stop, step = (tx.lazy(getattr(value, n), source.attr(n)) for n in ("start", "stop", "step"))
        return cls(start, stop, step, source)

    def parts(self) -> list[VariableTracker]:
        """Start, stop and step."""
        return [self.start.realize(), self.stop.realize(), self.step.realize()]

    def is_python_constant(self) -> bool:
        return all(p.is_python_constant() for p in self.parts())

    def as_python_constant(self) -> slice:
        return slice(*(p.as_python_constant() for p in self.parts()))

    def as_proxy(self) -> Any:
        return slice(*(p.as_proxy() for p in self.parts()))

    def truth(self, tx: Tx) -> bool:
        return True

    def length(self, tx: Tx) -> VariableTracker:
        tx.raise_(TypeError, "object of type 'slice' has no len()")

    def shadow(self, tx: Tx, leaf: Leaf, memo: dict[int, Any]) -> Any:
        return slice(*(shadow_of(tx, p, leaf, memo) for p in self.parts()))

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name in ("start", "stop", "step"):
            part: VariableTracker = getattr(self, name)
            return part
        return super().getattr(tx, name)

    def iterate(self, tx: Tx) -> VariableTracker:
        tx.raise_(TypeError, "'slice' object is not iterable")

    def hash_key(self, tx: Tx) -> Any:
        if not _SLICES_HAVE_HASHES:
            return super().hash_key(tx)
        return (slice, *(p.hash_key(tx) for p in self.parts()))

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(slice)
        for part in self.parts():
            emit(part)
        emit.op("call", 3)


def slice_value(tx: Tx, value: SliceVariable) -> slice:
    """The slice as numbers."""
    return slice(*(index_value(tx, part) for part in value.parts()))


@SLICE.define("indices", least=1)
def _slice_indices(tx: Tx, self: SliceVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap(run_model(tx, slice_value(tx, self).indices, index_value(tx, args[0])))


def _compare_slices(tx: Tx, op: Any, self: SliceVariable, other: VariableTracker) -> VariableTracker | None:
    if not isinstance(other, SliceVariable):
        return None
    return compare_sequences(tx, op, self.parts(), other.parts(), length_decides=False)


define_common(SLICE)
define_comparisons(SLICE, _compare_slices)
