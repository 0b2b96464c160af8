"""The hooks that a plugin of the group `graphwright.plugins` may implement.

Events are told to every plugin and their results ignored. An implementation may leave out arguments it doesn't need.
None of them is called while a cached call runs; they belong to capturing, compiling and missing the cache. What an
implementation raises is reported as that plugin's bug, as a `HookError`.

Arguments that come up again and again:

* `compile_id`: which capture this is, as `"<frame>/<attempt>"`; the same in all events of one capture.
* `function`: the qualified name of the captured function.
* `filename`, `lineno`: where in the user's source.
* `graph_name`: the name of one compiled graph; a capture may have several.
"""

from collections.abc import Sequence
from typing import Any

from torch import fx

from .markers import hookspec


class EventHooks:
    """What happened, in the order in which it happens to one function."""

    @hookspec
    def capture_started(self, compile_id: str, function: str, filename: str, lineno: int) -> None:
        """Called when a frame passed the filter and its translation begins.

        Args:
            compile_id: Which capture this is.
            function: The frame's function.
            filename: The function's file.
            lineno: The function's first line.
        """

    @hookspec
    def frame_skipped(self, function: str, filename: str, lineno: int, reason: str, remedy: str) -> None:
        """Called when a frame is left to the interpreter as a whole.

        Args:
            function: The frame's function.
            filename: The file of the line that couldn't be captured.
            lineno: That line.
            reason: Why, as a sentence.
            remedy: What the user can do, as a sentence; empty where nothing needs doing.
        """

    @hookspec
    def graph_break(self, compile_id: str, break_id: str, reason: str, remedy: str, filename: str, lineno: int) -> None:
        """Called when a graph ends before the function does.

        Args:
            compile_id: Which capture this is.
            break_id: The catalogue's stable id, `"GW0001"` and so on.
            reason: What couldn't be captured and why, as a sentence.
            remedy: What the user can do, as a sentence.
            filename: The file of the line that ends the graph.
            lineno: That line.
        """

    @hookspec
    def graph_captured(
        self, compile_id: str, graph_name: str, graph: fx.GraphModule, example_inputs: Sequence[Any]
    ) -> None:
        """Called when a graph is complete, before transforms and before the backend.

        Args:
            compile_id: Which capture this is.
            graph_name: The graph's name.
            graph: The graph. It may be read and printed; only `transform_graph` may change it.
            example_inputs: A fake tensor, number or symbolic number for each placeholder.
        """

    @hookspec
    def graph_compiled(self, compile_id: str, graph_name: str, backend: str, duration_us: float) -> None:
        """Called when the backend has compiled a graph.

        Args:
            compile_id: Which capture this is.
            graph_name: The graph's name.
            backend: The backend's name.
            duration_us: Time spent in the backend, in microseconds.
        """

    @hookspec
    def backend_failed(self, compile_id: str, graph_name: str, backend: str, error: Exception) -> None:
        """Called when the backend raised while it compiled a graph.

        Args:
            compile_id: Which capture this is.
            graph_name: The graph's name.
            backend: The backend's name.
            error: What it raised.
        """

    @hookspec
    def capture_finished(self, compile_id: str, function: str, outcome: str, duration_us: float) -> None:
        """Called when a capture ends, whatever came of it.

        Args:
            compile_id: Which capture this is.
            function: The frame's function.
            outcome: `"compiled"`, `"skipped"`, `"run_only"` or `"failed"`.
            duration_us: Time from the beginning of the capture, in microseconds.
        """

    @hookspec
    def internal_error(self, compile_id: str, function: str, error: Exception) -> None:
        """Called when capture met a bug of Graphwright's own; the function then runs in eager.

        Args:
            compile_id: Which capture this is.
            function: The frame's function.
            error: The error.
        """

    @hookspec
    def guard_failed(self, function: str, guard: str, explanation: str) -> None:
        """Called when a cached entry doesn't fit a call and no other entry does.

        Args:
            function: The function called.
            guard: The guard that failed, as Python text.
            explanation: What was expected and what was found, as a sentence.
        """

    @hookspec
    def recompile(self, compile_id: str, function: str, filename: str, lineno: int, reasons: Sequence[str]) -> None:
        """Called when a function that has entries is captured once more, before that capture starts.

        Args:
            compile_id: Which capture this will be.
            function: The function.
            filename: The function's file.
            lineno: The function's first line.
            reasons: Why each present entry didn't fit, latest entry first.
        """

    @hookspec
    def weights_changed(self, function: str, weights: Sequence[str], how: str, action: str, reason: str) -> None:
        """Called when weights that a compiled graph holds as constants are others in a call.

        Args:
            function: The captured function.
            weights: The weights that changed, in the program's terms.
            how: `"replaced"` by other tensors, or `"written to"`.
            action: What is done: `"compiled anew"`, `"refitted"`, `"weights as inputs"` or `"runs in eager"`.
            reason: Why no less could be done; empty where that is plain.
        """

    @hookspec
    def recompile_limit_hit(self, function: str, filename: str, lineno: int, limit: int, reason: str) -> None:
        """Called once when a function has as many entries as it may have and stops being captured.

        Args:
            function: The function.
            filename: The function's file.
            lineno: The function's first line.
            limit: The limit.
            reason: Why the last capture was asked for.
        """


class TransformHooks:
    """Changes to a graph between capture and backend."""

    @hookspec
    def transform_graph(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> fx.GraphModule | None:
        """Called for every captured graph, before the backend gets it; plugins take turns in registration order.

        Inputs, outputs, their order and what the graph computes must stay the same. After each plugin the graph is
        checked, and a fault is reported as that plugin's: whether it is well-formed, whether its inputs are in their
        places, and, where it has changed, by a run on fakes whether it can run and returns as many outputs as before,
        of the same kinds, dtypes and sizes. What it computes is not checked.

        Args:
            graph: The graph, as the plugin before left it. May be changed in place.
            example_inputs: A fake tensor, number or symbolic number for each placeholder.

        Returns:
            A graph that takes the place of this one, or None to go on with this one.
        """
