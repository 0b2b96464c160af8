"""Removal of nodes that nobody uses, where that cannot be noticed."""

from __future__ import annotations

from collections.abc import Set

from torch import fx


def remove_dead_nodes(graph: fx.Graph, removable: Set[fx.Node]) -> None:
    """Erase, last first, the removable nodes without users."""
    for node in reversed(graph.nodes):
        if not node.users and node in removable:
            graph.erase_node(node)
