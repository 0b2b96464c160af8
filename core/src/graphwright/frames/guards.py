"""The guards of a frame's entry that are known when its graph is closed."""

from __future__ import annotations

from types import FunctionType

import graphwright._native as _native
import graphwright.events as events
from graphwright.capture import CaptureState
from graphwright.exc import InternalError
from graphwright.graph.finished_graph import FinishedGraph
from graphwright.graph.graph_inputs import GraphInput, storage_groups
from graphwright.shapes.shape_guards import check_required_dims, fixed_floats, shape_relations
from graphwright.sources import Source


class FrameGuards:
    """Completes the guards of a capture.

    Args:
        function: what was captured.
        args: the values of its argument slots, from which the guards must hold.
        site: the capture.
    """

    def __init__(
        self, capture: CaptureState, function: FunctionType, args: tuple[object, ...], site: events.CaptureSite
    ) -> None:
        self._capture = capture
        self._function = function
        self._args = args
        self._site = site

    def add_aliasing(self, graph: FinishedGraph) -> None:
        """Tensors that share memory must go on to share it, and the others not, where the graph writes to any."""
        capture = self._capture
        capture.effects.guard_aliasing(capture.guards)
        groups = storage_groups(capture.output.inputs)
        used = {id(entry) for entry in graph.inputs}
        pairs = [(e, g) for e, g in zip(capture.output.inputs, groups, strict=True) if id(e) in used]
        shared = len({g for _, g in pairs}) < len(pairs)
        written = capture.output.mutated_inputs()
        if len(pairs) > 1 and (shared or written):
            places = {id(e): int(e.tensor.storage_offset()) for e in written} if shared else {}
            offsets = [places.get(id(e), -1) for e, _ in pairs]
            capture.guards.storages([e.source for e, _ in pairs], [g for _, g in pairs], offsets)
        for entry in written:
            if entry.tensor.requires_grad:
                _guard_place_in_history(capture, entry)

    def report_symbols(self, *, is_asked_for: bool) -> dict[str, str]:
        """Tell which sizes and numbers vary; gives those that the program fixed, each with where it did.

        Args:
            is_asked_for: whether the user said that sizes vary (`dynamic=True`).

        Raises:
            DynamicSizeFixed: a size that is marked as dynamic is fixed.
        """
        symbols, site = self._capture.output.symbols, self._site
        check_required_dims(symbols)
        why = "dynamic=True" if is_asked_for else "it is marked, or was another in an earlier capture"
        for place, symbol in symbols.varying():
            site.tell(events.DimensionMadeDynamic, source=str(place), symbol=symbol, why=why)
        fixed = list(symbols.fixed())
        for place, value, asked_at in fixed:
            site.tell(events.DimensionFixed, source=str(place), value=value, asked_at=asked_at)
        return {str(place): asked_at for place, _, asked_at in fixed}

    def tree(self, fetched: list[Source]) -> _native.GuardTree:
        """The native guards of all that was asked of the world, which fetch these sources.

        Raises:
            InternalError: they do not hold for the call that they were made from.
        """
        guards, symbols = self._capture.guards, self._capture.output.symbols
        guards.shapes(shape_relations(symbols))
        for source, value in fixed_floats(symbols):
            guards.add(source, "eq", value)
        roots, n_slots, relations = guards.native_spec(fetched)
        tree = _native.GuardTree(roots, n_slots, relations, True)
        self._site.tell(events.GuardsBuilt, function=self._site.function, guards=tuple(guards))
        if not tree.check(self._args, self._function):
            raise InternalError(
                f"the guards of {self._function.__qualname__} do not hold for the call they were made from: "
                f"{tree.first_failure(self._args, self._function)!r}"
            )
        return tree


def _guard_place_in_history(capture: CaptureState, entry: GraphInput) -> None:
    """Whether a tensor may be written to depends on whether it, or what it is a view of, is a leaf."""
    base = entry.tensor._base
    of_base = entry.source.attr("_base")
    if base is None:
        capture.guards.add(of_base, "eq", None)
        capture.guards.add(entry.source.attr("is_leaf"), "eq", entry.tensor.is_leaf)
    else:
        capture.guards.add(of_base.attr("is_leaf"), "eq", base.is_leaf)
        capture.guards.add(of_base.attr("requires_grad"), "eq", base.requires_grad)
