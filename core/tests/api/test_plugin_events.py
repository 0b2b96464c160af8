from __future__ import annotations

import logging
import operator
from typing import Any

import pytest
import torch

import graphwright
from graphwright import events, plugin_events
from graphwright.plugin_events import _HOOKS, PluginBridge
from graphwright.testing import CompileCounter
from graphwright_plugins import HookError, Plugins, hookimpl


class Observer:
    def __init__(self) -> None:
        self.story: list[tuple[Any, ...]] = []

    @hookimpl
    def capture_started(self, function: str, lineno: int) -> None:
        self.story.append(("started", function, lineno))

    @hookimpl
    def graph_captured(self, graph: torch.fx.GraphModule, example_inputs: Any) -> None:
        self.story.append(("graph", len(graph.graph.nodes), len(example_inputs)))

    @hookimpl
    def graph_compiled(self, backend: str, duration_us: float) -> None:
        self.story.append(("compiled", backend, duration_us > 0))

    @hookimpl
    def recompile(self, reasons: Any) -> None:
        self.story.append(("recompile", len(reasons)))

    @hookimpl
    def capture_finished(self, outcome: str) -> None:
        self.story.append(("finished", outcome))


def bridge_to(plugin: object) -> PluginBridge:
    plugins = Plugins()
    plugins.register(plugin, "mine", "mine 1.0")
    return PluginBridge(lambda: plugins)


def test_a_plugin_hears_of_a_capture() -> None:
    observer = Observer()
    bridge = bridge_to(observer)
    bridge.install()
    try:
        fn = graphwright.compile(lambda x: x + 1, backend="eager")
        fn(torch.ones(2))
        fn(torch.ones(2, dtype=torch.float64))
    finally:
        events.unsubscribe(bridge.tell)
    line = test_a_plugin_hears_of_a_capture.__code__.co_firstlineno + 5
    one = [
        ("started", "test_a_plugin_hears_of_a_capture.<locals>.<lambda>", line),
        ("graph", 3, 1),
        ("compiled", "eager", True),
        ("finished", "compiled"),
    ]
    assert observer.story == [*one, ("recompile", 1), *one]


def test_every_event_fits_its_hook() -> None:
    specs = Plugins()
    for hook, _ in _HOOKS.values():
        assert not specs.listens(hook)


def test_a_failing_plugin_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        @hookimpl
        def capture_started(self, function: str) -> None:
            raise ValueError("oops")

    bridge = bridge_to(Broken())
    bridge.install()
    try:
        with caplog.at_level(logging.ERROR, "graphwright"):
            assert graphwright.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item() == 2
    finally:
        events.unsubscribe(bridge.tell)
    assert "plugin 'mine' of mine 1.0 raised ValueError in its hook 'capture_started'" in caplog.text


def test_a_plugin_that_cannot_be_loaded_is_told_once() -> None:
    def load() -> Plugins:
        raise HookError("no such thing")

    bridge = PluginBridge(load)
    with events.collected(events.MechanismOff) as found:
        bridge.tell(events.FrameStarted(function="f"))
        bridge.tell(events.FrameStarted(function="f"))
    assert [event.reason for event in found if isinstance(event, events.MechanismOff)] == ["no such thing"]


def test_a_transform_changes_what_the_backend_gets(monkeypatch) -> None:
    class Doubler:
        @hookimpl
        def transform_graph(self, graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
            for node in list(graph.graph.nodes):
                if node.target is operator.add:
                    node.target = operator.mul
            graph.recompile()
            return graph

    monkeypatch.setattr(plugin_events, "BRIDGE", bridge_to(Doubler()))
    counter = CompileCounter()
    compiled = graphwright.compile(lambda x: x + 3, backend=counter)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
    assert [node.target for node in counter.graphs[0].graph.nodes if node.op == "call_function"] == [operator.mul]


def test_a_failing_transform_is_an_error_of_the_call(monkeypatch) -> None:
    class Broken:
        @hookimpl
        def transform_graph(self, graph: torch.fx.GraphModule) -> None:
            raise RuntimeError("nothing works")

    monkeypatch.setattr(plugin_events, "BRIDGE", bridge_to(Broken()))
    with pytest.raises(HookError, match=r"mine 1\.0.*nothing works"):
        graphwright.compile(lambda x: x + 3, backend="eager")(torch.ones(2))


def test_a_transform_that_changes_what_a_graph_returns_is_an_error_of_the_call(monkeypatch) -> None:
    class Broken:
        @hookimpl
        def transform_graph(self, graph: torch.fx.GraphModule) -> None:
            graph.graph.output_node().args = ((None, 3),)

    monkeypatch.setattr(plugin_events, "BRIDGE", bridge_to(Broken()))
    with pytest.raises(HookError, match=r"mine 1\.0 broke .* output 0 is None instead of a tensor of torch\.float32"):
        graphwright.compile(lambda x: (x + 3, x * 2), backend="eager")(torch.ones(2))


def test_sizes_still_vary_in_a_graph_that_was_transformed(monkeypatch) -> None:
    class Doubler:
        @hookimpl
        def transform_graph(self, graph: torch.fx.GraphModule) -> None:
            for node in graph.graph.find_nodes(op="call_function", target=operator.add):
                node.target = operator.mul

    monkeypatch.setattr(plugin_events, "BRIDGE", bridge_to(Doubler()))
    counter = CompileCounter()
    compiled = graphwright.compile(lambda x: ((x + 3).reshape(-1), x.size(0)), backend=counter, dynamic=True)
    for size in (2, 5, 7):
        result, length = compiled(torch.ones(size, 4))
        assert torch.equal(result, torch.full((size * 4,), 3.0))
        assert length == size
    assert len(counter.graphs) == 1
