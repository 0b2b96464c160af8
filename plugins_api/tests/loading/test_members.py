"""The attributes of the contract, and names that miss one by a letter."""

import functools
import warnings
from typing import Any

import pytest

import graphwright_plugins.protocol as protocol
import graphwright_plugins.supports as supports
from graphwright_plugins import Capabilities, GraphForm, PluginWarning, list_backends, load_backend, resolve_backend
from graphwright_plugins.loading.contract import why_not_backend
from graphwright_plugins.loading.entry_points import BACKEND_GROUP
from graphwright_plugins.loading.members import METHODS, VALUES, near_members

PROTOCOLS = [
    value
    for module in (protocol, supports)
    for name, value in vars(module).items()
    if getattr(value, "_is_protocol", False) and (name.startswith("Has") or name == "Backend")
]


class Good:
    name = "good"
    capabilities = Capabilities()

    def compile(self, graph: Any, example_inputs: Any, options: Any) -> Any:
        return graph.forward


def variant(**members: Any) -> Any:
    return type("Variant", (Good,), members)()


def test_the_members_are_those_of_the_protocols() -> None:
    declared = {name: each for kind in PROTOCOLS for name, each in vars(kind).items() if not name.startswith("_")}
    assert {name for name, each in declared.items() if isinstance(each, property)} == set(VALUES)
    assert {
        name: tuple(each.__code__.co_varnames[1 : each.__code__.co_argcount])
        for name, each in declared.items()
        if not isinstance(each, property)
    } == METHODS


def method(self: Any, node: Any, options: Any) -> None:
    return None


def refit(self: Any, compiled: Any, tensors: Any) -> None:
    return None


@pytest.mark.parametrize(
    ("own", "value", "member"),
    [
        ("suports", method, "supports"),
        ("support", method, "supports"),
        ("suports", 3, "supports"),
        ("update_weight", refit, "update_weights"),
        ("avaliable", lambda self: None, "available"),
        ("graph_from", GraphForm(), "graph_form"),
        ("grah_form", lambda self, options: GraphForm(), "graph_form"),
        ("option_type", int, "options_type"),
        ("mode", {"fast": {"level": 1}}, "modes"),
        ("falback_backend", "eager", "fallback_backend"),
        ("minimum_part_sizes", 3, "minimum_part_size"),
        ("api_versions", (1, 0), "api_version"),
        ("capture_advise", None, "capture_advice"),
        ("cache_key_part", lambda self, options: {}, "cache_key_parts"),
        ("prepar", lambda self, options: None, "prepare"),
    ],
)
def test_a_slip_is_told_with_the_near_name(own: str, value: Any, member: str) -> None:
    with pytest.warns(
        PluginWarning, match=rf"backend 'good' \(an object of .*Variant\) has an attribute '{own}', .*"
    ) as w:
        resolve_backend(variant(**{own: value}))
    assert f"Did you mean '{member}'?" in str(w[0].message)
    assert len(w) == 1


def test_a_slip_on_the_object_itself_is_told() -> None:
    backend = Good()
    backend.suports = lambda node, options: None  # type: ignore[attr-defined]
    assert list(near_members(backend)) == [("suports", "supports")]


@pytest.mark.parametrize(
    "members",
    [
        {"compiled": 3},  # it has compile
        {"closed": False, "prepared": True, "saved": [], "loaded": None, "partitions": 2},
        {"models": {}, "nodes": {}, "model": "a", "mode": "fast"},
        {"is_available": lambda self: True, "availability": True, "supported": {"add"}, "supports_training": True},
        {"version": "1.0", "names": [], "options": {}, "backend": "eager", "partitioner": object()},
        {"supports": method, "suport": method},
        {"_suports": method},
        {"closes": property(lambda self: 1 / 0)},
    ],
    ids=lambda members: ",".join(members),
)
def test_words_of_their_own_are_no_slips(members: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve_backend(variant(**members))


def test_no_installed_backend_is_warned_of() -> None:
    for info in list_backends():
        if info.group == BACKEND_GROUP and info.distribution and info.distribution.startswith("graphwright-"):
            assert list(near_members(load_backend(info.name))) == []


class Raising(Good):
    def __init__(self, error: Exception) -> None:
        self.error = error


@pytest.mark.parametrize("kind", [property, functools.cached_property])
@pytest.mark.parametrize("member", ["modes", "graph_form", "capabilities", "available"])
@pytest.mark.parametrize("error", [RuntimeError("no card"), AttributeError("no card")])
def test_a_property_that_raises_is_named(kind: Any, member: str, error: Exception) -> None:
    def read(self: Raising) -> Any:
        raise self.error

    descriptor = kind(read)
    namespace = {member: descriptor}
    if kind is functools.cached_property:
        descriptor.__set_name__(None, member)
    backend = type("Kind", (Raising,), namespace)(error)
    assert why_not_backend(backend) == f"has a property '{member}' that raised {type(error).__name__}: no card"
