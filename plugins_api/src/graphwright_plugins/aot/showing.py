"""Shows the graphs that AOTAutograd makes, to whoever wants to see them."""

from __future__ import annotations

import functools

from torch import fx

from graphwright_plugins.shown_artifacts import show_artifact


def show_graph(name: str, graph: fx.GraphModule) -> None:
    """Show a graph of operators as the log `aot_graphs`: its code, with the dtypes, sizes and strides of its values."""
    text = functools.partial(graph.print_readable, print_output=False, include_stride=True)
    show_artifact("aot_graphs", name, text)
