"""Where a value came from, and how to read it again.

The sources of one capture form a tree: each is an accessor applied to its parent, and equal accesses are the same
object, so that identity is equality. The same tree, with the checks that hold at its nodes, is what the native guard
walk runs over, and what fetches the values that replacement code needs.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

_TEMPLATES = {
    "local": "L[{key!r}]",
    "globals": "G",
    "builtins": "B",
    "closure_cell": "closure[{key}]",
    "function": "F",
    "object": "<{label}>",
    "constant": "<{label}>",
    "attr": "{base}.{key}",
    "instance_dict": "{base}.__dict__",
    "dict_item": "{base}[{key}]",
    "dict_key": "list({base})[{key}]",
    "index": "{base}[{key}]",
    "item": "{base}[{key}]",
    "type": "type({base})",
    "mro_attr": "{base}.{key}",
    "cell_contents": "{base}.cell_contents",
}


def _label(value: object) -> str:
    return getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or type(value).__name__


_PLAIN_KEYS = frozenset({bool, int, float, complex, str, bytes, type(None)})


def _key_text(key: Any) -> str:
    """A key as Python text, without running a `__repr__` of the program's."""
    kind = type(key)
    if kind in _PLAIN_KEYS or (kind.__module__ == "torch" and kind.__qualname__ in ("dtype", "device", "layout")):
        return repr(key)
    if kind is tuple:
        return f"({', '.join(map(_key_text, key))}{',' if len(key) == 1 else ''})"
    if issubclass(kind, enum.Enum):
        return f"{kind.__qualname__}.{object.__getattribute__(key, '_name_')}"
    if issubclass(kind, type):
        return str(key.__qualname__)
    return f"<{kind.__qualname__}>"


class Source:
    """One step of access: `accessor` with `key`, applied to `base` (None for a root).

    Accessors are those of the native guard tree; see `graphwright._native.GuardTree`.
    """

    __slots__ = ("accessor", "base", "children", "key", "name_hint")

    def __init__(self, base: Source | None, accessor: str, key: Any = None, name_hint: str = "") -> None:
        self.base = base
        self.accessor = accessor
        self.key = key
        self.name_hint = name_hint
        self.children: dict[tuple[Any, ...], Source] = {}

    def child(self, accessor: str, key: Any = None, name_hint: str = "") -> Source:
        """The source that applies `accessor` with `key` to this one."""
        index = (accessor, type(key), key)
        found = self.children.get(index)
        if found is None:
            found = self.children[index] = Source(self, accessor, key, name_hint)
        return found

    def attr(self, name: str) -> Source:
        """`base.name` by plain attribute access; only for attributes whose getter is written in C."""
        return self.child("attr", name)

    def instance_dict(self) -> Source:
        """The object's own `__dict__`."""
        return self.child("instance_dict")

    def dict_item(self, key: Any) -> Source:
        """`dict.__getitem__`, without `__missing__`."""
        return self.child("dict_item", key)

    def dict_key(self, position: int) -> Source:
        """The key at a position of a dict."""
        return self.child("dict_key", position)

    def index(self, position: int) -> Source:
        """An item of a list or tuple."""
        return self.child("index", position)

    def cell_contents(self) -> Source:
        """What a closure cell holds."""
        return self.child("cell_contents")

    def mro_attr(self, name: str) -> Source:
        """What a class or its bases define under `name`, unbound."""
        return self.child("mro_attr", name)

    def path(self) -> Iterator[Source]:
        """This source and those it is reached through, root first."""
        if self.base is not None:
            yield from self.base.path()
        yield self

    def __str__(self) -> str:
        if self.base is not None and self.base.accessor == "instance_dict" and self.accessor == "dict_item":
            return f"{self.base.base}.{self.key}"
        if self.base is not None and self.base.accessor == "globals":
            return f"G[{self.key!r}]"
        key = self.name_hint or (_key_text(self.key) if self.accessor in ("dict_item", "item") else self.key)
        return _TEMPLATES[self.accessor].format(key=key, base=self.base, label=_label(self.key))

    def __repr__(self) -> str:
        return f"Source({self})"


class SourceRoots:
    """The roots of one capture's source tree."""

    def __init__(self) -> None:
        self._roots: dict[tuple[Any, ...], Source] = {}

    def _root(self, accessor: str, key: Any, index: Any, name_hint: str = "") -> Source:
        found = self._roots.get((accessor, index))
        if found is None:
            found = self._roots[accessor, index] = Source(None, accessor, key, name_hint)
        return found

    def local(self, position: int, name: str) -> Source:
        """An argument slot of the frame, by its position among the argument slots."""
        return self._root("local", position, position, name)

    def globals(self) -> Source:
        """The globals dict of the frame's function."""
        return self._root("globals", None, None)

    def builtins(self) -> Source:
        """The builtins dict of the frame's function."""
        return self._root("builtins", None, None)

    def closure_cell(self, position: int, name: str) -> Source:
        """The cell object of a free variable."""
        return self._root("closure_cell", position, position, name)

    def object(self, value: object) -> Source:
        """An object known by itself, held weakly: classes mostly."""
        return self._root("object", value, id(value))

    def constant(self, value: Any) -> Source:
        """An object that lives with the entry, held strongly: nothing that could reach the user's code."""
        return self._root("constant", value, id(value))

    def release(self) -> None:
        """Cut the cycles between sources and what is reached through them: some hold objects of the program."""
        pending = list(self._roots.values())
        while pending:
            source = pending.pop()
            pending.extend(source.children.values())
            source.children.clear()
        self._roots.clear()

    def __iter__(self) -> Iterator[Source]:
        return iter(self._roots.values())
