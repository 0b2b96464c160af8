"""An observer: counts compiled graphs and remembers why functions were compiled again."""

from collections.abc import Sequence

from graphwright_plugins import hookimpl


class Watch:
    """Implements two of the hooks, each with only the arguments it needs."""

    def __init__(self) -> None:
        self.graphs = 0
        self.reasons: list[str] = []

    @hookimpl
    def graph_compiled(self) -> None:
        """Count a graph."""
        self.graphs += 1

    @hookimpl
    def recompile(self, function: str, reasons: Sequence[str]) -> None:
        """Remember why a function is compiled again."""
        self.reasons += [f"{function}: {reason}" for reason in reasons]


watch = Watch()
