from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from graphwright_plugins import Capabilities, NoOptions
from graphwright_plugins.errors import ApiVersionError, BackendContractError, BackendUnavailable
from graphwright_plugins.loading.contract import (
    api_version_of,
    check_available,
    check_backend,
    check_backend_object,
    looks_like_backend,
    options_type_of,
    why_not_backend,
)
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


class Misnamed(WithoutCompile):
    compil = Good.compile


def with_members(**members: Any) -> Any:
    return type("With", (Good,), members)()


@dataclass(frozen=True)
class Options:
    level: int = 1


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
        (Misnamed(), r"no attribute 'compile' \(it has 'compil'\)"),
        (with_members(close=3), "'close' that can't be called"),
        (with_members(prepare=lambda self: None), r"prepare method that doesn't take \(options\)"),
        (with_members(available=lambda self, options: None), r"available method that doesn't take \(\)"),
        (with_members(supports=lambda self, node: None), r"supports method that doesn't take \(node, options\)"),
        (with_members(partition=None), "'partition' that can't be called"),
        (with_members(update_weights=lambda self: 0), r"update_weights method that doesn't take \(compiled, tensors\)"),
        (with_members(minimum_part_size="3"), "minimum_part_size='3'; it must be a whole number of at least 1"),
        (with_members(minimum_part_size=True), "minimum_part_size=True"),
        (with_members(minimum_part_size=0), "minimum_part_size=0"),
        (with_members(fallback_backend=None), "fallback_backend=None; it must be the name of a backend"),
        (with_members(fallback_backend=Good()), "fallback_backend=<"),
        (with_members(modes=["fast"]), "modes of type list; it must be a mapping"),
        (with_members(modes={"fast": {"level": 1}}), "mode 'fast' that sets 'level', which is no option"),
        (with_members(modes={"fast": {"levl": 1}}, options_type=Options), "sets 'levl'.*Did you mean 'level'"),
        (with_members(modes={"fast": {"level": "1"}}, options_type=Options), "'level' to '1'; it must be int"),
    ],
)
def test_what_is_missing_is_said(candidate: object, fault: str, make_plugin: Callable[..., FoundPlugin]) -> None:
    with pytest.raises(BackendContractError, match=fault) as caught:
        check_backend(candidate, make_plugin("good", candidate))
    assert "dist-a 1.2" in str(caught.value)
    assert "Report it to the authors of dist-a." in str(caught.value)


@pytest.mark.parametrize(
    ("candidate", "told"),
    [
        (Good, r"the backend is the class Good; name an instance of it"),
        (WithoutCompile(), r"backend 'good' \(an object of .*WithoutCompile\) has no attribute 'compile'"),
        (WithoutCapabilities(), r"backend 'good' \(an object of .*\) has capabilities of type dict"),
        (WithoutName(), r"the backend, an object of .*WithoutName, has the name ''"),
    ],
)
def test_an_object_is_checked_alike(candidate: object, told: str) -> None:
    with pytest.raises(BackendContractError, match=told):
        check_backend_object(candidate)


@pytest.mark.parametrize("version", [(0, 9), (1, 99), (2, 0), "1.0", None, (1,), ("1", "0"), (True, 0)])
def test_an_object_for_another_version_is_refused(version: Any) -> None:
    with pytest.raises(ApiVersionError, match=r"backend 'good' \(an object of .*plugin interface") as caught:
        check_backend_object(with_members(api_version=version))
    assert caught.value.plugin == "good"
    assert check_backend_object(with_members(api_version=(1, 0)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Good(), True),
        (Good, True),
        (WithoutCompile(), True),
        (with_members(capabilities=property(lambda self: 1 / 0)), True),
        ("eager", False),
        (3, False),
        (None, False),
        (len, False),
        (torch.nn.Linear(1, 1), False),  # it can be called, and has a method compile
        (dict, False),
    ],
)
def test_what_was_meant_as_a_backend_object(value: object, expected: bool) -> None:
    assert looks_like_backend(value) is expected


@pytest.mark.parametrize("answer", [False, "no card", 3])
def test_an_answer_that_is_no_answer_is_the_backends_fault(answer: Any) -> None:
    with pytest.raises(
        BackendContractError, match=r"available\(\) of backend 'x' of d 1 returned .*; it must return None"
    ):
        check_available(with_members(available=lambda self: answer), "backend 'x' of d 1")


def test_what_available_raises_is_told_with_whose_it_is() -> None:
    def denied(self: Any) -> None:
        raise OSError("/dev/tc0: permission denied")

    def absent(self: Any) -> None:
        raise BackendUnavailable("no card", reason="no card")

    with pytest.raises(BackendContractError, match=r"available\(\) of backend 'x' raised OSError: /dev/tc0") as caught:
        check_available(with_members(available=denied), "backend 'x'")
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(BackendUnavailable, match=r"available\(\) of backend 'x': no card"):
        check_available(with_members(available=absent), "backend 'x'")


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
