from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import fx

from graphwright_plugins import Capabilities, Unavailable, Unsupported, lookup_backend, resolve_backend
from graphwright_plugins.errors import (
    BackendContractError,
    BackendUnavailable,
    OptionTypeError,
    UnknownBackend,
    UnknownOption,
)
from graphwright_plugins.loading.entry_points import FoundPlugin
from graphwright_plugins.loading.registry import BackendRegistry
from graphwright_plugins.options.build import NoOptions
from graphwright_plugins.resolve import freeze

MakePlugin = Callable[..., FoundPlugin]


@dataclass(frozen=True)
class Options:
    level: int = 1
    table: Mapping[str, list[int]] | None = None


class Vendor:
    """A backend that remembers what it was called with."""

    name = "vendor"
    capabilities = Capabilities(training=False)
    options_type = Options
    modes: Mapping[str, Mapping[str, Any]] = {"fast": {"level": 9}}

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def compile(self, graph: fx.GraphModule, example_inputs: Any, options: Options) -> Any:
        self.calls.append((example_inputs, options))
        return graph.forward


def graph() -> fx.GraphModule:
    return fx.symbolic_trace(lambda x: (x + 1,))


def test_a_name_is_resolved_with_owner_and_options(make_plugin: MakePlugin) -> None:
    vendor = Vendor()
    registry = BackendRegistry([make_plugin("vendor", vendor)])
    resolved = resolve_backend("vendor", {"level": 2}, registry=registry)
    assert (resolved.name, resolved.distribution, resolved.version) == ("vendor", "dist-a", "1.2")
    assert resolved.options == Options(level=2)
    assert not resolved.capabilities.training
    assert torch.equal(resolved.compile(graph(), [torch.ones(2)])(torch.ones(2))[0], torch.full((2,), 2.0))
    assert vendor.calls[0][1] == Options(level=2)


def test_options_are_validated_at_once(make_plugin: MakePlugin) -> None:
    registry = BackendRegistry([make_plugin("vendor", Vendor())])
    with pytest.raises(UnknownOption):
        resolve_backend("vendor", {"levl": 2}, registry=registry)
    with pytest.raises(OptionTypeError):
        resolve_backend("vendor", {"level": "2"}, registry=registry)


def test_a_mode_sets_options() -> None:
    assert resolve_backend(Vendor(), mode="fast").options == Options(level=9)


def test_a_backend_object_is_taken_directly() -> None:
    resolved = resolve_backend(Vendor())
    assert (resolved.name, resolved.distribution) == ("vendor", None)


def test_a_callable_is_a_backend() -> None:
    def compile_it(gm: fx.GraphModule, example_inputs: Any) -> Any:
        assert isinstance(example_inputs, list)
        return gm.forward

    resolved = resolve_backend(compile_it)
    assert resolved.name.endswith("compile_it")
    assert resolved.distribution is None
    assert torch.equal(resolved.compile(graph(), (torch.ones(2),))(torch.ones(2))[0], torch.full((2,), 2.0))


@pytest.mark.parametrize("backend", [3, None, ["eager"]])
def test_other_things_are_a_type_error(backend: Any) -> None:
    with pytest.raises(TypeError, match="must be a name, a Backend object or a callable"):
        resolve_backend(backend)


def test_an_empty_name_is_unknown() -> None:
    with pytest.raises(UnknownBackend):
        resolve_backend("")


def test_a_resolved_backend_is_not_resolved_again() -> None:
    with pytest.raises(TypeError, match="resolved already"):
        resolve_backend(resolve_backend(Vendor()))


def test_a_backend_object_is_checked() -> None:
    class Odd(Vendor):
        name = ""

    with pytest.raises(BackendContractError, match="non-empty string"):
        resolve_backend(Odd())


@pytest.mark.parametrize("lacking", ["compile", "capabilities"])
def test_an_object_that_lacks_something_is_told_what(lacking: str) -> None:
    members = {name: vars(Vendor)[name] for name in ("name", "compile", "capabilities") if name != lacking}
    with pytest.raises(
        BackendContractError, match=rf"backend 'vendor' \(an object of .*\) has no attribute '{lacking}'"
    ):
        resolve_backend(type("Half", (), members)())


def test_a_class_is_told_from_its_instance() -> None:
    with pytest.raises(BackendContractError, match="the backend is the class Vendor; name an instance of it"):
        resolve_backend(Vendor)  # type: ignore[arg-type]


def test_a_fallback_of_the_users_that_is_wrong_is_told_as_such() -> None:
    with pytest.raises(UnknownBackend, match=r"the fallback that was asked for beside backend 'vendor' .*'egaer'") as c:
        resolve_backend(Vendor(), fallback="egaer")
    assert c.value.name == "egaer"
    with pytest.raises(BackendContractError, match=r"the fallback that was asked for.* is the class Vendor"):
        resolve_backend(Vendor(), fallback=Vendor)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="fallback must be a name, a Backend object or a callable"):
        resolve_backend(Vendor(), fallback=3)  # type: ignore[arg-type]


def test_a_fallback_of_the_backends_that_is_wrong_is_told_as_such(make_plugin: MakePlugin) -> None:
    class Refusing(Vendor):
        fallback_backend = "egaer"

        def supports(self, node: fx.Node, options: Any) -> Unsupported | None:
            return Unsupported("no")

    registry = BackendRegistry([make_plugin("vendor", Refusing())])
    resolved = resolve_backend("vendor", registry=registry)
    with pytest.raises(
        UnknownBackend, match=r"backend 'vendor' of dist-a 1\.2 names 'egaer' as its fallback_backend, which .*'egaer'"
    ):
        resolved.compile(graph(), [torch.ones(2)])


@pytest.mark.parametrize("member", ["graph_form", "capture_advice"])
def test_a_form_or_advice_that_can_not_be_had_is_told_with_the_owner(member: str, make_plugin: MakePlugin) -> None:
    vendor = type("Asked", (Vendor,), {member: lambda self, options: options.nope})()
    resolved = resolve_backend("vendor", registry=BackendRegistry([make_plugin("vendor", vendor)]))
    with pytest.raises(
        BackendContractError, match=rf"{member}\(options\) of backend 'vendor' of dist-a 1\.2 raised AttributeError"
    ):
        resolved.prepare()


def test_an_unavailable_backend_says_why_and_what_to_do() -> None:
    class Absent(Vendor):
        def available(self) -> Unavailable | None:
            return Unavailable("no device was found", "Install the driver.")

    with pytest.raises(BackendUnavailable, match=r"no device was found\. Install the driver\.") as caught:
        resolve_backend(Absent())
    assert caught.value.remedy == "Install the driver."


def test_a_result_that_cannot_be_called_is_the_backends_fault() -> None:
    with pytest.raises(BackendContractError, match="returned None for a graph"):
        resolve_backend(lambda gm, example_inputs: None).compile(graph(), [])  # type: ignore[arg-type, return-value]


def test_what_the_backend_raises_passes_through() -> None:
    def fails(gm: fx.GraphModule, example_inputs: Any) -> Any:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        resolve_backend(fails).compile(graph(), [])


class Holder:
    def method(self, gm: fx.GraphModule, example_inputs: Any) -> Any:
        return gm.forward


def test_key_is_equal_for_the_same_backend_and_options() -> None:
    vendor, holder = Vendor(), Holder()
    assert resolve_backend(vendor, {"level": 2}).key == resolve_backend(vendor, {"level": 2}).key
    assert resolve_backend(vendor, {"table": {"a": [1]}}).key == resolve_backend(vendor, {"table": {"a": [1]}}).key
    assert resolve_backend(holder.method).key == resolve_backend(holder.method).key
    assert len({resolve_backend(vendor).key, resolve_backend(vendor).key}) == 1


def test_key_differs_for_other_backends_and_options() -> None:
    vendor = Vendor()
    keys = [
        resolve_backend(vendor).key,
        resolve_backend(Vendor()).key,
        resolve_backend(vendor, {"level": 2}).key,
        resolve_backend(vendor, {"table": {"a": [1]}}).key,
        resolve_backend(Holder().method).key,
        resolve_backend(Holder().method).key,
        resolve_backend(lambda gm, example_inputs: gm).key,
        resolve_backend(lambda gm, example_inputs: gm).key,
    ]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(("left", "right"), [(1, True), (1, 1.0), ([1], (1,)), ({"a": 1}, {"a": 2}), ({1}, {2})])
def test_frozen_values_that_differ(left: Any, right: Any) -> None:
    assert freeze(left) != freeze(right)


@pytest.mark.parametrize("value", [None, 1, "a", [1, [2]], {"a": {"b": {1}}}, NoOptions(), torch.float16])
def test_frozen_values_that_are_equal(value: Any) -> None:
    assert freeze(value) == freeze(value)
    hash(freeze(value))


def test_lookup_gives_the_plain_callable() -> None:
    pytest.importorskip("graphwright_eager")
    compiled = lookup_backend("eager")(graph(), [torch.ones(2)])
    assert torch.equal(compiled(torch.ones(2))[0], torch.full((2,), 2.0))
