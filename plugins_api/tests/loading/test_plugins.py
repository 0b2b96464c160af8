import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import fx

from graphwright_plugins import hookimpl
from graphwright_plugins.errors import ApiVersionError, HookError, PluginLoadError
from graphwright_plugins.hookspecs import EventHooks
from graphwright_plugins.loading.entry_points import PLUGIN_GROUP, FoundPlugin
from graphwright_plugins.loading.plugins import Plugins, load_plugins

EVENTS: dict[str, dict[str, Any]] = {
    "capture_started": {"compile_id": "0/0", "function": "f", "filename": "a.py", "lineno": 1},
    "frame_skipped": {"function": "f", "filename": "a.py", "lineno": 1, "reason": "r", "remedy": ""},
    "graph_break": {
        "compile_id": "0/0",
        "break_id": "GW0001",
        "reason": "r",
        "remedy": "m",
        "filename": "a.py",
        "lineno": 2,
    },
    "graph_captured": {"compile_id": "0/0", "graph_name": "g", "graph": None, "example_inputs": []},
    "graph_compiled": {"compile_id": "0/0", "graph_name": "g", "backend": "eager", "duration_us": 3.0},
    "backend_failed": {"compile_id": "0/0", "graph_name": "g", "backend": "eager", "error": ValueError("v")},
    "capture_finished": {"compile_id": "0/0", "function": "f", "outcome": "compiled", "duration_us": 5.0},
    "internal_error": {"compile_id": "0/0", "function": "f", "error": ValueError("v")},
    "guard_failed": {"function": "f", "guard": "L['n'] == 3", "explanation": "expected 3, actual 4"},
    "recompile": {"compile_id": "0/1", "function": "f", "filename": "a.py", "lineno": 1, "reasons": ["r"]},
    "weights_changed": {
        "function": "f",
        "weights": ("L['self'].weight",),
        "how": "replaced",
        "action": "compiled anew",
        "reason": "",
    },
    "recompile_limit_hit": {"function": "f", "filename": "a.py", "lineno": 1, "limit": 8, "reason": "r"},
}


class Recorder:
    """Implements every event hook with all its arguments."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []


def _recording(name: str, arguments: Sequence[str]) -> Callable[..., None]:
    def record(self: Recorder, **values: Any) -> None:
        self.seen.append((name, values))

    # pluggy reads the argument names from the code itself, so they have to be written out.
    scope: dict[str, Any] = {"record": record}
    keywords = ", ".join(f"{argument}={argument}" for argument in arguments)
    exec(f"def {name}(self, {', '.join(arguments)}): record(self, {keywords})", scope)
    marked: Callable[..., None] = hookimpl(scope[name])
    return marked


for _name, _function in inspect.getmembers(EventHooks, inspect.isfunction):
    _arguments = [argument for argument in inspect.signature(_function).parameters if argument != "self"]
    setattr(Recorder, _name, _recording(_name, _arguments))


def test_the_table_of_events_is_complete() -> None:
    specified = {name for name, _ in inspect.getmembers(EventHooks, inspect.isfunction)}
    assert set(EVENTS) == specified


@pytest.mark.parametrize("event", sorted(EVENTS))
def test_event_reaches_every_plugin_with_its_arguments(event: str) -> None:
    plugins, first, second = Plugins(), Recorder(), Recorder()
    plugins.register(first, "first")
    plugins.register(second, "second")
    assert plugins.listens(event)
    plugins.notify(event, **EVENTS[event])
    assert first.seen == second.seen == [(event, EVENTS[event])]


def test_an_event_nobody_listens_to_goes_nowhere() -> None:
    Plugins().notify("graph_compiled", **EVENTS["graph_compiled"])


def test_an_implementation_may_leave_out_arguments() -> None:
    seen = []

    class Short:
        @hookimpl
        def graph_break(self, reason: str) -> None:
            seen.append(reason)

    plugins = Plugins()
    plugins.register(Short(), "short")
    plugins.notify("graph_break", **EVENTS["graph_break"])
    assert seen == ["r"]


def test_a_plugin_that_raises_is_named() -> None:
    class Bad:
        @hookimpl
        def graph_compiled(self) -> None:
            raise ZeroDivisionError("oops")

    plugins = Plugins()
    plugins.register(Recorder(), "good")
    plugins.register(Bad(), "bad", "dist-b 2.0")
    with pytest.raises(HookError, match=r"plugin 'bad' of dist-b 2\.0 raised ZeroDivisionError in its hook") as caught:
        plugins.notify("graph_compiled", **EVENTS["graph_compiled"])
    assert (caught.value.plugin, caught.value.hook) == ("bad", "graph_compiled")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_hook_that_does_not_exist_is_refused_by_name() -> None:
    class Misspelt:
        @hookimpl
        def graph_captrued(self) -> None:
            """Never called."""

    plugins = Plugins()
    with pytest.raises(HookError, match=r"plugin 'm' of dist-b 2\.0 doesn't fit.*graph_captrued"):
        plugins.register(Misspelt(), "m", "dist-b 2.0")
    assert plugins.names == ()
    plugins.register(Recorder(), "good")


def test_an_argument_that_does_not_exist_is_refused() -> None:
    class Wrong:
        @hookimpl
        def graph_compiled(self, colour: str) -> None:
            """Never called."""

    with pytest.raises(HookError, match="colour"):
        Plugins().register(Wrong(), "wrong")


def test_two_plugins_of_one_name_are_refused() -> None:
    plugins = Plugins()
    plugins.register(Recorder(), "x", "dist-a 1")
    with pytest.raises(HookError, match=r"the name belongs to plugin 'x' of dist-a 1"):
        plugins.register(Recorder(), "x", "dist-b 1")


def test_an_unregistered_plugin_hears_nothing() -> None:
    plugins, recorder = Plugins(), Recorder()
    plugins.register(recorder, "x")
    plugins.notify("graph_compiled", **EVENTS["graph_compiled"])
    plugins.unregister("x")
    plugins.notify("graph_compiled", **EVENTS["graph_compiled"])
    assert len(recorder.seen) == 1


def graph() -> fx.GraphModule:
    return fx.symbolic_trace(lambda x: (x + 1,))


class AddOne:
    """Changes the graph in place: adds one more."""

    @hookimpl
    def transform_graph(self, graph: fx.GraphModule) -> None:
        (output,) = graph.graph.find_nodes(op="output")
        with graph.graph.inserting_before(output):
            more = graph.graph.call_method("add", (output.args[0][0], 1))
        output.args = ((more,),)


class Double:
    """Returns a new graph: twice the old one."""

    @hookimpl
    def transform_graph(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> fx.GraphModule:
        old = graph.graph
        new = fx.Graph()
        result = new.graph_copy(old, {})
        new.output((new.call_method("mul", (result[0], 2)),))  # type: ignore[index, arg-type]
        return fx.GraphModule(graph, new)


def test_transform_graph_lets_plugins_take_turns_in_registration_order() -> None:
    plugins = Plugins()
    plugins.register(AddOne(), "add")
    plugins.register(Double(), "double")
    changed = plugins.transform(graph(), [torch.zeros(1)])
    assert changed(torch.zeros(1))[0].item() == 4.0


def test_without_transforms_the_graph_is_handed_back() -> None:
    original = graph()
    assert Plugins().transform(original, [torch.zeros(1)]) is original


class ReturnsNonsense:
    @hookimpl
    def transform_graph(self, graph: fx.GraphModule) -> Any:
        return 3


class DropsInput:
    @hookimpl
    def transform_graph(self, graph: fx.GraphModule) -> Any:
        return fx.symbolic_trace(lambda: (torch.zeros(1),))


class BreaksOrder:
    @hookimpl
    def transform_graph(self, graph: fx.GraphModule) -> None:
        _placeholder, add, output = graph.graph.nodes
        output.append(add)


class Raises:
    @hookimpl
    def transform_graph(self, graph: fx.GraphModule) -> None:
        raise ValueError("no")


@pytest.mark.parametrize(
    ("plugin", "fault"),
    [
        (ReturnsNonsense(), "returned 3"),
        (DropsInput(), "0 inputs instead of 1"),
        (BreaksOrder(), "well-formed"),
        (Raises(), "raised ValueError"),
    ],
)
def test_a_transform_that_breaks_the_graph_is_named(plugin: object, fault: str) -> None:
    plugins = Plugins()
    plugins.register(plugin, "culprit")
    with pytest.raises(HookError, match=fault) as caught:
        plugins.transform(graph(), [torch.zeros(1)])
    assert "plugin 'culprit'" in str(caught.value)
    assert "GRAPHWRIGHT_DISABLED_PLUGINS=culprit" in str(caught.value)


MakePlugin = Callable[..., FoundPlugin]


def test_load_plugins_registers_objects_and_classes(make_plugin: MakePlugin) -> None:
    found = [make_plugin("a", AddOne(), group=PLUGIN_GROUP), make_plugin("b", Recorder, group=PLUGIN_GROUP)]
    assert load_plugins(found=found).names == ("a", "b")


def test_blocked_plugins_are_not_imported(make_plugin: MakePlugin) -> None:
    found = [make_plugin("a", ImportError("never seen"), group=PLUGIN_GROUP)]
    assert load_plugins(found=found, disabled=frozenset({"a"})).names == ()


def test_a_plugin_that_cannot_be_imported_is_named(make_plugin: MakePlugin) -> None:
    with pytest.raises(PluginLoadError, match=r"plugin 'a' of dist-a 1\.2"):
        load_plugins(found=[make_plugin("a", ImportError("x"), group=PLUGIN_GROUP)])


def test_a_plugin_for_another_version_is_refused(make_plugin: MakePlugin) -> None:
    recorder = Recorder()
    recorder.api_version = (0, 1)  # type: ignore[attr-defined]
    with pytest.raises(ApiVersionError):
        load_plugins(found=[make_plugin("a", recorder, group=PLUGIN_GROUP)])


def test_installed_plugins_can_be_loaded() -> None:
    load_plugins()


def test_a_class_whose_instance_can_not_be_made_is_told(make_plugin: Callable[..., FoundPlugin]) -> None:
    class Broken:
        def __init__(self) -> None:
            raise OSError("no such file")

    found = make_plugin("broken", Broken, group=PLUGIN_GROUP)
    with pytest.raises(PluginLoadError, match=r"'broken' of dist-a 1\.2 can't be loaded: .*Broken\(\) raised OSError"):
        load_plugins(found=[found], disabled=frozenset())
