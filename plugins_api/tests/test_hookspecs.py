import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from graphwright_plugins import hookspecs
from graphwright_plugins.hookspecs import EventHooks, TransformHooks
from graphwright_plugins.loading.plugins import Plugins


def hooks() -> list[Callable[..., Any]]:
    return [
        function
        for owner in (EventHooks, TransformHooks)
        for name, function in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_")
    ]


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: hook.__name__)
def test_every_hook_says_when_it_is_called_and_documents_exactly_its_arguments(hook: Callable[..., Any]) -> None:
    text = inspect.getdoc(hook) or ""
    assert text.startswith("Called "), "the first word of a hook's documentation is when it is called"
    arguments = [name for name in inspect.signature(hook).parameters if name != "self"]
    section = text.partition("Args:")[2].partition("Returns:")[0]
    documented = re.findall(r"^    (\w+): ", section, re.MULTILINE)
    assert documented == arguments


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: hook.__name__)
def test_every_hook_is_typed(hook: Callable[..., Any]) -> None:
    parameters = inspect.signature(hook).parameters.values()
    assert all(
        parameter.annotation is not inspect.Parameter.empty for parameter in parameters if parameter.name != "self"
    )


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: hook.__name__)
def test_every_hook_can_be_listened_to(hook: Callable[..., Any]) -> None:
    assert not Plugins().listens(hook.__name__)


def test_the_module_explains_arguments_that_come_up_again() -> None:
    for argument in ("compile_id", "function", "filename", "graph_name"):
        assert f"`{argument}`" in (hookspecs.__doc__ or "")
