"""The guards of one capture: checks by source, and relations between sources.

A check is the tuple that the native tree takes: ``("type", T)``, ``("id", obj)``, ``("eq", value)``, ``("len", n)``,
``("keys", keys)``, ``("dict_has", key)``, ``("dict_lacks", key)``, ``("absent",)``, ``("tensor", example, dims)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from graphwright.shapes.shape_guards import ShapeRelation
from graphwright.sources import Source, SourceRoots

Check = tuple[Any, ...]
NodeSpec = tuple[str, Any, list[Check], list[Any], int]


@dataclass(frozen=True, slots=True)
class Guard:
    """One condition, in words and as data."""

    source: str
    check: Check

    def __str__(self) -> str:
        kind, *rest = self.check
        if kind == "shape":
            return self.source
        if kind == "tensor":
            example = rest[0]
            return (
                f"{self.source}: tensor {example.dtype} {tuple(example.shape)} stride {tuple(example.stride())} "
                f"{example.device} requires_grad={example.requires_grad}"
            )
        shown = ", ".join(getattr(r, "__qualname__", None) or repr(r)[:120] for r in rest)
        return f"{self.source}: {kind} {shown}".rstrip()


class GuardSet:
    """Collects guards while capturing, then gives the native tree its data."""

    def __init__(self, roots: SourceRoots) -> None:
        self.roots = roots
        self._checks: dict[Source, list[Check]] = {}
        self._seen: set[tuple[Any, ...]] = set()
        self._same: list[tuple[Source, Source]] = []
        self._distinct: dict[frozenset[Source], None] = {}
        self._storages: list[tuple[list[Source], list[int], list[int]]] = []
        self._shapes: list[ShapeRelation] = []

    def release(self) -> None:
        """Let go of what the guards name: the native tree has taken what it needs."""
        for collected in (self._checks, self._seen, self._same, self._distinct, self._storages, self._shapes):
            collected.clear()

    def touch(self, source: Source) -> None:
        """Require that the source can be fetched at all."""
        self._checks.setdefault(source, [])

    def add(self, source: Source, *check: Any) -> None:
        """Require that `check` holds for the value of `source`."""
        index = (source, check[0], *(_identity(c) for c in check[1:]))
        if index not in self._seen:
            self._seen.add(index)
            self._checks.setdefault(source, []).append(check)

    def same(self, first: Source, second: Source) -> None:
        """Require that both sources give one and the same object."""
        self._same.append((first, second))

    def distinct(self, first: Source, second: Source) -> None:
        """Require that the two sources give different objects."""
        if first is not second:
            self._distinct[frozenset((first, second))] = None

    def storages(self, sources: list[Source], groups: list[int], offsets: list[int]) -> None:
        """Require that the tensors share storages exactly as `groups` says, and start at `offsets` (-1: anywhere)."""
        # As many bits as the native side keeps.
        low = [offset & 0x7FFFFFFF if offset >= 0 else -1 for offset in offsets]
        self._storages.append((sources, groups, low))

    def shapes(self, relations: list[ShapeRelation]) -> None:
        """Require what a capture assumed of sizes and numbers that vary."""
        self._shapes.extend(relations)

    def __iter__(self) -> Iterator[Guard]:
        for source, checks in self._checks.items():
            for check in checks:
                yield Guard(str(source), check)
        for a, b in self._same:
            yield Guard(str(a), ("same as", str(b)))
        for pair in self._distinct:
            first, second = sorted(map(str, pair))
            yield Guard(first, ("not the same as", second))
        for relation in self._shapes:
            yield Guard(relation.text, ("shape",))

    def native_spec(self, fetched: list[Source]) -> tuple[list[NodeSpec], int, list[tuple[Any, ...]]]:
        """Roots, number of slots and relations for `_native.GuardTree`.

        Args:
            fetched: sources whose values the entry wants, in slot order; further slots serve the relations.
        """
        slots: dict[Source, int] = {}
        for source in fetched:
            slots.setdefault(source, len(slots))

        def slot(source: Source) -> int:
            return slots.setdefault(source, len(slots))

        relations: list[tuple[Any, ...]] = [("same", (slot(a), slot(b))) for a, b in self._same if a is not b]
        relations += [("distinct", tuple(slot(s) for s in pair)) for pair in self._distinct]
        for some, groups, offsets in self._storages:
            relations.append(("storages", tuple(slot(s) for s in some), tuple(groups), tuple(offsets)))
        relations += [_shape_spec(relation, slot) for relation in self._shapes]
        needed: set[Source] = set()
        for source in [*self._checks, *slots]:
            step: Source | None = source
            while step is not None and step not in needed:
                needed.add(step)
                step = step.base
        specs = [self._node(root, needed, slots) for root in self.roots if root in needed]
        return specs, len(slots), relations

    def _node(self, source: Source, needed: set[Source], slots: dict[Source, int]) -> NodeSpec:
        children = [self._node(c, needed, slots) for c in source.children.values() if c in needed]
        return (source.accessor, source.key, list(self._checks.get(source, ())), children, slots.get(source, -1))


def _shape_spec(relation: ShapeRelation, slot: Callable[[Source], int]) -> tuple[Any, ...]:
    sources = tuple(dict.fromkeys(place.source for place in relation.places))
    places = tuple((place.kind, sources.index(place.source), place.index) for place in relation.places)
    return ("shape", tuple(map(slot, sources)), places, relation.steps, relation.text)


def _identity(value: Any) -> Any:
    """A key that tells values apart as strictly as the native checks do."""
    if isinstance(value, (int, str, bytes, float, type(None))):
        return (type(value), repr(value))
    return id(value)
