import inspect
import pickle

import pytest

from graphwright_plugins import errors

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, Exception) and not issubclass(value, Warning)
]


@pytest.mark.parametrize("error_class", CLASSES)
def test_every_error_is_a_plugin_error_with_a_docstring(error_class: type[Exception]) -> None:
    assert issubclass(error_class, errors.PluginError)
    assert error_class.__doc__


@pytest.mark.parametrize("error_class", CLASSES)
def test_errors_survive_pickling(error_class: type[Exception]) -> None:
    error = error_class("the message")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is error_class
    assert str(again) == "the message"


def test_attributes_survive_pickling() -> None:
    error = errors.DuplicateBackend("m", name="x", owners=("a 1", "b 2"))
    again = pickle.loads(pickle.dumps(error))
    assert (again.name, again.owners) == ("x", ("a 1", "b 2"))


@pytest.mark.parametrize(
    ("error_class", "builtin"),
    [
        (errors.UnknownBackend, ValueError),
        (errors.DuplicateBackend, ValueError),
        (errors.OptionTypeError, TypeError),
        (errors.UnknownOption, ValueError),
        (errors.PluginLoadError, ImportError),
        (errors.BackendContractError, TypeError),
        (errors.DeclarationError, ValueError),
        (errors.DeclarationError, TypeError),
        (errors.BackendUnavailable, RuntimeError),
        (errors.UnsupportedGraph, NotImplementedError),
    ],
)
def test_errors_are_what_a_caller_would_catch(error_class: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(error_class, builtin)


@pytest.mark.parametrize("error_class", CLASSES)
def test_an_error_can_be_told_whose_it_is_once(error_class: type[Exception]) -> None:
    error = error_class("the message")
    assert errors.tell_whose(error, "backend 'x'") is error  # type: ignore[arg-type]
    errors.tell_whose(error, "backend 'x'")  # type: ignore[arg-type]
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == "backend 'x': the message"
