"""Graphwright: a plugin-based compiler framework for PyTorch programs.

import graphwright
model = graphwright.compile(model, backend="aot_eager")
"""

from graphwright import config, events, exc, logs, native_setup, plugin_events
from graphwright.api import compile, disable, reset
from graphwright.backend_reports import BackendReport, backend_report
from graphwright.dim_marks import mark_dynamic, mark_static, mark_static_address, mark_unbacked, maybe_mark_dynamic
from graphwright.explain import Explanation
from graphwright.explain import explain as explain
from graphwright.frames.backend_events import tell_backward_failure, tell_report
from graphwright.markers import allow_in_graph, assume_constant_result, graph_break, is_compiling, substitute_in_graph
from graphwright.recompiles import RecompileReport, explain_recompiles
from graphwright.stance import set_stance
from graphwright_plugins import list_backends, lookup_backend
from graphwright_plugins.compiling.backward_failures import listen_to_backward_failures
from graphwright_plugins.report import listen_to_reports

__version__ = "0.1.0"

__all__ = [
    "BackendReport",
    "Explanation",
    "RecompileReport",
    "allow_in_graph",
    "assume_constant_result",
    "backend_report",
    "compile",
    "config",
    "disable",
    "events",
    "exc",
    "explain",
    "explain_recompiles",
    "graph_break",
    "is_compiling",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "reset",
    "set_stance",
    "substitute_in_graph",
]

logs.install()
listen_to_reports(tell_report)
listen_to_backward_failures(tell_backward_failure)
plugin_events.BRIDGE.install()
native_setup.set_up_native()
