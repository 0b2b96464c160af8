"""Where placeholders stand in a graph: before all else, in the order in which they were made."""

from __future__ import annotations

from contextlib import AbstractContextManager

from torch import fx


def after_placeholder(graph: fx.Graph, last: fx.Node | None) -> AbstractContextManager[object]:
    """A block whose new nodes stand behind the last placeholder; at the beginning where there is none yet.

    `inserting_after(None)` would put them at the end of the graph, behind what was recorded already.
    """
    place: AbstractContextManager[object] = graph.inserting_after(last) if last else graph.inserting_before(None)
    return place
