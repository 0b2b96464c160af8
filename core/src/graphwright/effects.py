"""The ledger of what the traced program changed outside its frame.

Variables carry their own final state; the ledger knows which outside ones were changed, in the order of the first
change, and what was set on classes. Replacement code replays them after the graph call, from values that were all
fetched before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from graphwright.guards.guard_set import GuardSet
from graphwright.variables.base import VariableTracker
from graphwright.variables.later_call import LaterCall
from graphwright.variables.object_model import ClassAttribute


class Watch(Protocol):
    """Who wants to know of changes."""

    def note(self, variable: VariableTracker) -> None:
        """A variable is about to change."""


class Effects:
    """What one capture changed, and which outside objects it knows."""

    def __init__(self) -> None:
        self.mutated: dict[VariableTracker, None] = {}
        self.class_attributes: dict[tuple[type, str], VariableTracker] = {}
        self.later_calls: list[LaterCall] = []
        self._cuts: list[Callable[[], None]] = []
        """Logging calls that run after the graph, in order."""
        self._known: dict[int, tuple[Any, VariableTracker]] = {}
        self._watches: list[Watch] = []

    def mutate(self, variable: VariableTracker) -> None:
        """Note that an outside object is about to change; objects made inside need no note."""
        for watch in self._watches:
            watch.note(variable)
        if variable.source is not None:
            self.mutated[variable] = None

    @contextlib.contextmanager
    def watching(self, watch: Watch) -> Iterator[None]:
        """While entered, tell somebody of each object, from outside or not, that is about to change."""
        self._watches.append(watch)
        try:
            yield
        finally:
            self._watches.pop()

    def at_end(self, cut: Callable[[], None]) -> None:
        """Have a function called when the capture ends: one that cuts a cycle among variables."""
        self._cuts.append(cut)

    def release(self) -> None:
        """Let go of all outside objects."""
        for cut in self._cuts:
            cut()
        self._cuts.clear()
        for _, variable in self._known.values():
            variable.release()
        self._known.clear()
        self.mutated.clear()
        self.class_attributes.clear()
        self.later_calls.clear()

    def know(self, value: Any, variable: VariableTracker) -> None:
        """Remember the variable of an outside object, so that it stays one however it is reached."""
        self._known[id(value)] = (value, variable)

    def known(self, value: Any) -> VariableTracker | None:
        """The variable of an outside object seen before."""
        found = self._known.get(id(value))
        return None if found is None else found[1]

    def is_empty(self) -> bool:
        """Whether there is nothing to replay."""
        return not self.mutated and not self.class_attributes and not self.later_calls

    def misplaced_call(self) -> LaterCall | None:
        """The first logging call that cannot run after the graph, because what it shows is changed in the meantime."""
        return next((call for call in self.later_calls if call.came_too_late()), None)

    # ---------------------------------------------------------- classes

    def set_class_attribute(self, cls: type, name: str, value: VariableTracker) -> None:
        """Note `cls.name = value`."""
        self.class_attributes[cls, name] = value

    def own_class_attribute(self, cls: type, name: str) -> ClassAttribute | None:
        """What the traced program set on this very class."""
        value = self.class_attributes.get((cls, name))
        return None if value is None else ClassAttribute(None, cls, None, value)

    def class_attribute(self, cls: type, name: str) -> ClassAttribute | None:
        """What the traced program set on the class or a base, if no class before it in the MRO has the name."""
        if not self.class_attributes:
            return None
        for base in cls.__mro__:
            found = self.own_class_attribute(base, name)
            if found is not None:
                return found
            if name in base.__dict__:
                return None
        return None

    # ---------------------------------------------------------- aliasing

    def guard_aliasing(self, guards: GuardSet) -> None:
        """Require that changed objects stay distinct from others of their type.

        Two arguments that were different objects may be one object in a later call; then a change through one would
        have to be seen through the other.
        """
        by_type: dict[type, list[VariableTracker]] = {}
        for _, variable in self._known.values():
            if variable.source is not None and variable.source.accessor not in ("object", "constant"):
                by_type.setdefault(_alias_type(variable), []).append(variable)
        for changed in self.mutated:
            for other in by_type.get(_alias_type(changed), ()):
                if other is not changed and changed.source is not None and other.source is not None:
                    guards.distinct(changed.source, other.source)


def _alias_type(variable: VariableTracker) -> type:
    return variable.python_type()
