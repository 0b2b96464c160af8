from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from graphwright_plugins import Capabilities, NoOptions
from graphwright_plugins.errors import ApiVersionError, BackendContractError
from graphwright_plugins.loading.contract import api_version_of, check_backend, options_type_of, why_not_backend
from graphwright_plugins.loading.entry_points import FoundPlugin


class Good:
    name = "good"
    capabilities = Capabilities()

    def compile(self, graph: Any, example_inputs: Any, options: Any) -> Any:
        return graph.forward


class WithoutCompile:
    name = "good"
    capabilities = Capabilities()


class WithoutName(Good):
    name = ""


class WithoutCapabilities(Good):
    capabilities = {"training": True}  # type: ignore[assignment]


class TwoArguments(Good):
    def compile(self, graph: Any, example_inputs: Any) -> Any:  # type: ignore[override]
        return graph.forward


class NotCallable(Good):
    compile = 3  # type: ignore[assignment]


@dataclass
class Thawed:
    level: int = 1


class ThawedOptions(Good):
    options_type = Thawed


class OddAvailability(Good):
    available = False


def test_a_good_backend_passes() -> None:
    assert why_not_backend(Good()) is None


@pytest.mark.parametrize(
    ("candidate", "fault"),
    [
        (Good, "is the class Good; name an instance"),
        (WithoutCompile(), "no attribute 'compile'"),
        (object(), "no attribute 'name' and no 'capabilities' and no 'compile'"),
        (WithoutName(), "isn't a non-empty string"),
        (WithoutCapabilities(), "capabilities of type dict"),
        (TwoArguments(), r"doesn't take \(graph, example_inputs, options\)"),
        (NotCallable(), "compile attribute that can't be called"),
        (ThawedOptions(), "isn't frozen"),
        (OddAvailability(), "'available' that can't be called"),
    ],
)
def test_what_is_missing_is_said(candidate: object, fault: str, make_plugin: Callable[..., FoundPlugin]) -> None:
    with pytest.raises(BackendContractError, match=fault) as caught:
        check_backend(candidate, make_plugin("good", candidate))
    assert "dist-a 1.2" in str(caught.value)


def test_the_entry_point_and_the_backend_have_one_name(make_plugin: Callable[..., FoundPlugin]) -> None:
    with pytest.raises(BackendContractError, match="calls itself 'good'; both names must be the same"):
        check_backend(Good(), make_plugin("other", Good()))


@pytest.mark.parametrize("version", [(0, 9), (1, 99), (2, 0), "1.0", (1,), ("1", "0")])
def test_other_versions_of_the_contract_are_refused(version: Any, make_plugin: Callable[..., FoundPlugin]) -> None:
    candidate = Good()
    candidate.api_version = version  # type: ignore[attr-defined]
    with pytest.raises(ApiVersionError, match=r"plugin 'good' of dist-a 1\.2"):
        check_backend(candidate, make_plugin("good", candidate))


def test_optional_attributes_have_defaults() -> None:
    assert options_type_of(Good()) is NoOptions
    assert api_version_of(Good()) == (1, 0)
