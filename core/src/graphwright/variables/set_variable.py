"""Sets and frozen sets.

A set's order is part of what a program can see. It follows from the hashes and from the history of the table, so the
model of a set is a real set of hash keys that goes through the same operations.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import graphwright.graph_breaks as gb
from graphwright.sources import Source
from graphwright.variables.base import Emitter, Tx, VariableTracker
from graphwright.variables.constant import ConstantVariable, is_literal
from graphwright.variables.container import ContainerVariable, Leaf, backing, emit_call, shadow_of
from graphwright.variables.dict_variable import DictVariable
from graphwright.variables.iterator import CheckedIterator
from graphwright.variables.method_table import MethodTable

Key = Any
SET = MethodTable(set)
FROZENSET = MethodTable(frozenset)
"""The methods of sets; entered by `graphwright.variables.set_methods`."""


class SetVariable(ContainerVariable):
    """A set.

    Attributes:
        model: a real set of hash keys.
        members: the variables by hash key; may hold more than the model does.
        order: hash keys in the order of the outside set, while it has not been changed.
        exact: whether the model iterates as the real set would.
    """

    methods = SET
    cls: type = set

    def __init__(self, model: Any = None, members: dict[Key, VariableTracker] | None = None) -> None:
        self.model: Any = self.cls() if model is None else model
        self.members: dict[Key, VariableTracker] = {} if members is None else members
        self.order: list[Key] | None = None
        self.exact = True
        self.changes = 0
        self.log: list[tuple[Key, bool]] = []
        """Items that came to (True) or went from (False) an outside set, one after the other."""

    @classmethod
    def new(cls) -> SetVariable:
        """An empty set made by the traced program."""
        return cls()

    @classmethod
    def of(cls, tx: Tx, items: Iterable[VariableTracker] | DictVariable) -> SetVariable:
        """A set made by adding items one by one, or all keys of a dict."""
        result = SetVariable()
        if isinstance(items, DictVariable) and items.cls is dict:
            result.add_keys(tx, items)
        else:
            for item in items.unpack(tx) if isinstance(items, DictVariable) else items:
                result.add(tx, item)
        return result if cls is SetVariable else cls(cls.cls(result.model), result.members)

    @classmethod
    def outside(cls, tx: Tx, value: Any, source: Source) -> SetVariable:
        """The variable of a set that came from outside: its items and their order are guarded."""
        real = list((frozenset if cls.cls is frozenset else set).__iter__(value))
        tx.capture.guards.add(source, "keys", tuple(real)) if real else tx.capture.guards.add(source, "len", 0)
        self = cls()
        self.source = source
        self.order = []
        for item in real:
            vt = tx.wrap(item) if is_literal(item) else tx.wrap(item, tx.capture.roots.object(item)).realize()
            key = vt.hash_key(tx)
            self.members[key] = vt
            self.order.append(key)
        # The real set is never changed here: a change makes a copy first.
        self.exact = all(key is item for key, item in zip(self.order, real, strict=True))
        self.model = value if self.exact else cls.cls(self.order)
        return self

    # ---------------------------------------------------------- items

    def key_of(self, tx: Tx, item: VariableTracker) -> Key:
        """The hash key of an item that is searched for; a set stands for a frozen one."""
        item = item.realize()
        if isinstance(item, SetVariable) and not isinstance(item, FrozenSetVariable):
            return frozenset(item.model)
        return item.hash_key(tx)

    def has(self, tx: Tx, item: VariableTracker) -> bool:
        """`item in self`."""
        return self.key_of(tx, item) in self.model

    def add(self, tx: Tx, item: VariableTracker) -> None:
        """`self.add(item)`."""
        item = item.realize()
        key = item.hash_key(tx)
        if key not in self.model:
            self.changed(tx)
            self.model.add(key)
            self.members[key] = item
            self.log.append((key, True))

    def add_keys(self, tx: Tx, source: DictVariable) -> None:
        """`self.update(d)` for an exact dict, which sizes the table in one step."""
        found = {key.realize().hash_key(tx): key.realize() for key in source.unpack(tx)}
        self.change(tx, lambda model: model.update(dict.fromkeys(found)), found)

    def discard(self, tx: Tx, item: VariableTracker) -> bool:
        """Take an item out; whether it was there."""
        key = self.key_of(tx, item)
        if key not in self.model:
            return False
        self.changed(tx)
        self.model.discard(key)
        self.log.append((key, False))
        return True

    def change(self, tx: Tx, fn: Callable[[Any], Any], found: dict[Key, VariableTracker]) -> None:
        """Run an operation on the model that takes out some items and puts in some of `found`."""
        self.changed(tx)
        before = set(self.model)
        result = fn(self.model)
        self.model = self.model if result is None else result
        for key, item in found.items():
            self.members.setdefault(key, item)
        self.log += [(key, False) for key in before if key not in self.model]
        self.log += [(key, True) for key in found if key in self.model and key not in before]

    def changed(self, tx: Tx) -> None:
        """Make ready for a change of the model."""
        tx.capture.effects.mutate(self)
        self.changes += 1
        if self.order is not None:
            self.model, self.order, self.exact = set(self.model), None, False

    def ordered_keys(self, tx: Tx) -> list[Key]:
        """The hash keys in the order in which Python iterates."""
        if self.order is not None:
            return list(self.order)
        if not self.exact and len(self.model) > 1:
            tx.graph_break(gb.MUTATION_OF_UNKNOWN, "order of an outside set after it has been changed")
        return list(self.model)

    # ---------------------------------------------------------- data model

    def size(self, tx: Tx) -> int:
        return len(self.model)

    def unpack(self, tx: Tx) -> list[VariableTracker]:
        return [self.members[key] for key in self.ordered_keys(tx)]

    def unordered(self) -> list[VariableTracker]:
        """The items, for uses where their order shows in no result."""
        return [self.members[key] for key in self.model]

    def iterate(self, tx: Tx) -> VariableTracker:
        items = self.unpack(tx)
        changes, count = self.changes, len(items)

        def check(tx: Tx, position: int) -> None:
            if len(self.model) != count:
                tx.raise_(RuntimeError, "Set changed size during iteration")
            if self.changes != changes:
                tx.graph_break(gb.MUTATION_OF_UNKNOWN, "items of a set replaced while it is iterated")

        if self.source is None:  # one made anew may give its items in another order
            return CheckedIterator(items.__getitem__, count, type(iter(set())), check)
        again = (iter, self, lambda: self.changes == changes)
        return CheckedIterator(items.__getitem__, count, type(iter(set())), check, again)

    def is_python_constant(self) -> bool:
        return False

    def shadow(self, tx: Tx, leaf: Leaf, memo: dict[int, Any]) -> Any:
        items = [shadow_of(tx, self.members[k], leaf, memo) for k in (self.model if self.order is None else self.order)]
        made = self.cls(items)
        return made if self.exact and list(made) == items else ShownSet(self.cls, items)

    # ---------------------------------------------------------- codegen

    def reconstruct(self, emit: Emitter) -> None:
        plan = emission_plan(self.model, self._history())
        if not plan.is_display:
            emit.load_constant(build_set)
        for items in (plan.added, plan.removed):
            for key in items:
                emit(self.members[key])
            if not plan.is_display:
                emit.op("build_tuple", len(items))
        if plan.is_display:
            emit.op("build_set", len(plan.added))
        else:
            emit.load_constant(plan.room)
            emit.op("call", 3)

    def _history(self) -> list[Key]:
        """Items that are or were in the set, as far as they can be made again."""
        return [k for k, vt in self.members.items() if k in self.model or vt.is_python_constant()]

    def replay(self, emit: Emitter) -> None:
        source = self.source
        assert source is not None
        for key, came in self.log:
            member = self.members[key]
            fn = set.add if came else set.discard
            emit_call(emit, fn, lambda: emit.load_source(source), functools.partial(emit, member))

    def __repr__(self) -> str:
        return f"<{self.cls.__name__} of {len(self.model)}{' from ' + str(self.source) if self.source else ''}>"


class FrozenSetVariable(SetVariable):
    """A frozen set."""

    methods = FROZENSET
    cls = frozenset

    def is_python_constant(self) -> bool:
        return all(m.is_python_constant() for m in self.unordered())

    def as_python_constant(self) -> Any:
        return frozenset(self.members[key].as_python_constant() for key in self.model)

    def hash_key(self, tx: Tx) -> Any:
        return frozenset(self.model)

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(frozenset)
        super().reconstruct(emit)
        emit.op("call", 1)


class ShownSet:
    """Shows as a set whose items cannot stand in a real one in their order."""

    def __init__(self, cls: type, items: list[Any]) -> None:
        self.cls = cls
        self.items = items

    def __repr__(self) -> str:
        if not self.items:
            return f"{self.cls.__name__}()"
        inside = f"{{{', '.join(map(repr, self.items))}}}"
        return inside if self.cls is set else f"{self.cls.__name__}({inside})"


class _Ghost:
    """Takes up room in a table."""


def build_set(added: Sequence[Any], removed: Sequence[Any], room: int | None) -> set[Any]:
    """Make a set with a history.

    Args:
        added: items to add, in this order.
        removed: items to take out again.
        room: how many more items to make room for first; None for the room that a set display makes.
    """
    if room is None:
        result = set(added)
    else:
        ghosts = [_Ghost() for _ in range(room)]
        result = set(dict.fromkeys((*added, *ghosts)))
        result.difference_update(ghosts)
    for item in removed:
        result.discard(item)
    return result


@dataclass(frozen=True, slots=True)
class EmissionPlan:
    """How to make a set; the arguments of `build_set`."""

    added: Sequence[Key]
    removed: Sequence[Key] = ()
    room: int | None = None

    @property
    def is_display(self) -> bool:
        """Whether a set display does it."""
        return self.room is None and not self.removed


def emission_plan(model: Any, history: list[Key]) -> EmissionPlan:
    """How to make a set that iterates like `model`.

    The order of a set depends on the size its table has grown to and on what was removed. Where no way is found, the
    order of iteration is as good as any.

    Args:
        model: the set.
        history: the items that are or were in it, in the order in which they were first seen.
    """
    cls, forward = type(model), list(model)
    present = [key for key in history if key in model]
    gone = [key for key in history if key not in model]
    plans = [EmissionPlan(present), EmissionPlan(forward), EmissionPlan(forward[::-1]), EmissionPlan(history, gone)]
    for size in (0, 1, 2, 4, 8, 16, 3 * len(forward)):
        plans += [EmissionPlan(present, (), size), EmissionPlan(forward, (), size), EmissionPlan(history, gone, size)]
    if len(forward) <= _FEW:
        plans += [EmissionPlan(order) for order in itertools.permutations(forward)]
    for plan in plans:
        made = build_set(plan.added, plan.removed, plan.room)
        if list(made if cls is set else cls(made)) == forward:
            return plan
    return EmissionPlan(forward)


_FEW = 4
"""Up to this many items all orders are tried."""


def as_set(tx: Tx, value: VariableTracker) -> SetVariable | None:
    """A set variable of a set, of a constant frozen set, or of an object of a set subclass."""
    value = value.realize()
    if isinstance(value, ConstantVariable) and issubclass(value.python_type(), frozenset):
        return FrozenSetVariable(value.value, {v: tx.wrap(v) for v in value.value})
    return backing(value, SetVariable)
