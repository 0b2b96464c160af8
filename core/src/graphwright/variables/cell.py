"""Closure cells."""

from __future__ import annotations

import types

from graphwright.sources import Source
from graphwright.variables.base import Emitter, Tx, VariableTracker

_UNREAD = object()


class CellVariable(VariableTracker):
    """A closure cell: of an outside closure (with a source) or made by the traced program."""

    def __init__(
        self,
        contents: VariableTracker | None = None,
        cell: types.CellType | None = None,
        source: Source | None = None,
    ) -> None:
        self.contents = contents
        self.source = source
        self._cell = cell
        self._read = cell is None

    def python_type(self) -> type:
        return types.CellType

    def load(self, tx: Tx) -> VariableTracker | None:
        """What the cell holds, or None while it is empty; a guard keeps an outside cell empty or filled."""
        if not self._read:
            self._read = True
            assert self.source is not None
            assert self._cell is not None
            inner = self.source.cell_contents()
            try:
                value = self._cell.cell_contents
            except ValueError:
                tx.capture.guards.add(inner, "absent")
            else:
                tx.capture.guards.touch(inner)
                self.contents = tx.lazy(value, inner)
        return self.contents

    def store(self, tx: Tx, value: VariableTracker) -> None:
        """Fill the cell."""
        tx.capture.effects.mutate(self)
        self._read = True
        self.contents = value

    def clear(self, tx: Tx) -> None:
        """Empty the cell."""
        tx.capture.effects.mutate(self)
        self._read = True
        self.contents = None

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        if name == "cell_contents":
            value = self.load(tx)
            if value is None:
                tx.raise_(ValueError, "Cell is empty")
            return value
        return super().getattr(tx, name)

    def hash_key(self, tx: Tx) -> object:
        return self

    def reconstruct(self, emit: Emitter) -> None:
        emit.load_constant(types.CellType)
        emit.op("call", 0)
        emit.remember(self)
        if self.contents is not None:
            self._fill(emit, self.contents)

    def replay(self, emit: Emitter) -> None:
        assert self.source is not None
        emit.load_source(self.source)
        if self.contents is None:
            emit.op("delete_attr", "cell_contents")
        else:
            self._fill(emit, self.contents)
            emit.op("pop_top")

    def _fill(self, emit: Emitter, contents: VariableTracker) -> None:
        """Store `contents` in the cell on top of the stack, leaving the cell there."""
        emit.op("copy", 1)
        emit(contents)
        emit.op("swap", 2)
        emit.op("store_attr", "cell_contents")
