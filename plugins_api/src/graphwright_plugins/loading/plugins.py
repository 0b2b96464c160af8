"""Observers and graph transforms: loading them, telling them events, letting them change graphs."""

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import pluggy
from torch import fx

from graphwright_plugins.errors import HookError
from graphwright_plugins.hookspecs import EventHooks, TransformHooks
from graphwright_plugins.markers import PROJECT_NAME
from graphwright_plugins.naming import raised

from .contract import check_api_version
from .entry_points import (
    DISABLED_VARIABLE,
    PLUGIN_GROUP,
    FoundPlugin,
    disabled_plugins,
    find_plugins,
    import_plugin,
    load_error,
)
from .transformed_graph import BeforeTransform, BrokenGraph, noted_outputs

TRANSFORM_HOOK = "transform_graph"


class Plugins:
    """The registered plugins, each called on its own, so that what goes wrong is laid at the right door."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(PROJECT_NAME)
        self._manager.add_hookspecs(EventHooks)
        self._manager.add_hookspecs(TransformHooks)
        self._owners: dict[str, str] = {}
        self._hooks: dict[str, list[tuple[str, pluggy.HookCaller]]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the registered plugins in registration order."""
        return tuple(self._owners)

    def register(self, plugin: object, name: str, owner: str | None = None) -> None:
        """Add a plugin: any module or object whose functions are marked with `hookimpl`.

        Args:
            plugin: The plugin.
            name: Its name, as in its entry point.
            owner: Its distribution and version, for messages.

        Raises:
            HookError: The name is taken, or a marked function is no hook, or takes arguments that its hook lacks.
        """
        described = f"plugin {name!r}" + (f" of {owner}" if owner else "")
        if name in self._owners:
            raise HookError(f"{described} can't be registered: the name belongs to {self._owners[name]}", plugin=name)
        try:
            self._manager.register(plugin, name)
            self._manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as error:
            if self._manager.get_plugin(name) is plugin:
                self._manager.unregister(plugin, name)
            raise HookError(f"{described} doesn't fit the hook specifications: {error}", plugin=name) from error
        self._owners[name] = described
        self._hooks.clear()

    def unregister(self, name: str) -> None:
        """Take a plugin out.

        Raises:
            KeyError: No plugin of this name is registered.
        """
        del self._owners[name]
        self._manager.unregister(name=name)
        self._hooks.clear()

    def listens(self, event: str) -> bool:
        """Whether any plugin implements this hook, so that callers can skip preparing its arguments."""
        return bool(self._callers(event))

    def notify(self, event: str, **arguments: Any) -> None:
        """Tell an event to every plugin that implements its hook.

        Raises:
            HookError: A plugin raised; the others after it aren't told.
        """
        for name, caller in self._callers(event):
            self._call(name, caller, event, arguments)

    def transform(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> fx.GraphModule:
        """Let every plugin change the graph in turn.

        Raises:
            HookError: A plugin raised, or left a graph that isn't valid, can't run, or takes or returns something else.
        """
        callers = self._callers(TRANSFORM_HOOK)
        outputs = noted_outputs(graph) if callers else ()
        for name, caller in callers:
            before = BeforeTransform(graph, example_inputs, outputs)
            arguments = {"graph": graph, "example_inputs": example_inputs}
            # One plugin may hold several implementations only by registering several objects: at most one result.
            results = self._call(name, caller, TRANSFORM_HOOK, arguments)
            graph = self._checked(results[0] if results else graph, before, name)
        return graph

    def _callers(self, event: str) -> list[tuple[str, pluggy.HookCaller]]:
        if event not in self._hooks:
            self._hooks[event] = [
                (name, caller) for name in self._owners if (caller := self._caller_of(name, event)).get_hookimpls()
            ]
        return self._hooks[event]

    def _caller_of(self, name: str, event: str) -> pluggy.HookCaller:
        plugins = self._manager.list_name_plugin()
        others = [plugin for other, plugin in plugins if other != name and plugin is not None]
        return self._manager.subset_hook_caller(event, others)

    def _call(self, name: str, caller: pluggy.HookCaller, event: str, arguments: dict[str, Any]) -> Any:
        try:
            return caller(**arguments)
        except Exception as error:
            raise HookError(
                f"{self._owners[name]} raised {type(error).__name__} in its hook {event!r}: {error}. Report it to its "
                f"authors; {DISABLED_VARIABLE}={name} runs without it.",
                plugin=name,
                hook=event,
            ) from error

    def _checked(self, graph: object, before: BeforeTransform, name: str) -> fx.GraphModule:
        try:
            return before.checked(graph)
        except BrokenGraph as fault:
            raise HookError(
                f"{self._owners[name]} broke the graph in its hook {TRANSFORM_HOOK!r}: {fault}. Report it to its "
                f"authors; {DISABLED_VARIABLE}={name} runs without it.",
                plugin=name,
                hook=TRANSFORM_HOOK,
            ) from fault.__cause__


def load_plugins(
    group: str = PLUGIN_GROUP,
    *,
    found: Iterable[FoundPlugin] | None = None,
    disabled: frozenset[str] | None = None,
) -> Plugins:
    """Import and register every installed plugin that the environment doesn't block.

    Args:
        group: The entry-point group.
        found: Plugins to load in place of the installed ones.
        disabled: Names to leave out in place of those in `GRAPHWRIGHT_DISABLED_PLUGINS`.

    Raises:
        PluginLoadError: A plugin can't be imported, or was written for another version of the contract.
        HookError: A plugin doesn't fit the hook specifications, or two have one name.
    """
    blocked = disabled_plugins() if disabled is None else disabled
    plugins = Plugins()
    for candidate in find_plugins(group) if found is None else found:
        if candidate.name not in blocked:
            plugin = import_plugin(candidate)
            check_api_version(plugin, candidate)
            plugins.register(_instance(plugin, candidate), candidate.name, candidate.owner)
    return plugins


def _instance(plugin: Any, candidate: FoundPlugin) -> Any:
    """What an entry point names; of a class, an instance."""
    if not inspect.isclass(plugin):
        return plugin
    try:
        return plugin()
    except Exception as error:
        raise load_error(candidate, f"{plugin.__qualname__}() raised {raised(error)}") from error
