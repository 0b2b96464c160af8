from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import fx

from graphwright_plugins import (
    Capabilities,
    GraphForm,
    as_torch_backend,
    list_backends,
    resolve_backend,
)
from graphwright_plugins.artifacts.size_assumptions import has_hidden_sizes
from graphwright_plugins.errors import (
    BackendContractError,
    DuplicateBackend,
    OptionError,
    UnknownBackend,
    UnknownOption,
)
from graphwright_plugins.loading import torch_backends
from graphwright_plugins.loading.entry_points import TORCH_BACKEND_GROUP, FoundPlugin
from graphwright_plugins.loading.known_torch_backends import Nature
from graphwright_plugins.loading.registry import BackendRegistry
from graphwright_plugins.testing import Program, compile_program
from graphwright_plugins.torch_compat import as_symbolic, fake_mode_of, new_fake_mode

PROGRAM = Program("p", lambda x, w: ((x @ w).relu(),), lambda: (torch.randn(3, 3), torch.randn(3, 3)))


def check(backend: Any, **keywords: Any) -> None:
    """Compile and compare with eager."""
    inputs = PROGRAM.inputs()
    compiled = compile_program(resolve_backend(backend, **keywords), PROGRAM, inputs)
    torch.testing.assert_close(compiled(*inputs)[0], PROGRAM.function(*inputs)[0])


@pytest.fixture
def torch_entry_point(
    make_plugin: Callable[..., FoundPlugin], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, Any], None]]:
    """Offer a callable to torch.compile by entry point."""
    found: list[FoundPlugin] = []
    monkeypatch.setattr(torch_backends, "torch_entry_points", lambda: BackendRegistry(found))

    def offer(name: str, target: Any) -> None:
        found.append(make_plugin(name, target, group=TORCH_BACKEND_GROUP))

    return offer  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["eager_noexcept", "aot_eager_decomp_partition"])
def test_a_name_of_torchs_own_works(name: str) -> None:
    resolved = resolve_backend(name)
    assert (resolved.distribution, resolved.version) == ("torch", torch.__version__)
    check(name)


def test_a_registered_name_works() -> None:
    registry = pytest.importorskip("torch._dynamo.backends.registry")

    def runs_as_it_is(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        return gm.forward

    registry.register_backend(runs_as_it_is, name="graphwright_test_registered")
    try:
        assert resolve_backend("graphwright_test_registered").distribution is None
        check("graphwright_test_registered")
    finally:
        del registry._BACKENDS["graphwright_test_registered"]
        del registry._COMPILER_FNS["graphwright_test_registered"]


def test_an_entry_point_for_torch_works(torch_entry_point: Callable[[str, Any], None]) -> None:
    torch_entry_point("theirs", lambda gm, example_inputs: gm.forward)
    assert resolve_backend("theirs").distribution == "dist-a"
    check("theirs")


def test_an_entry_point_with_the_name_of_torchs_own_is_refused(torch_entry_point: Callable[[str, Any], None]) -> None:
    torch_entry_point("eager_debug", lambda gm, example_inputs: gm.forward)
    with pytest.raises(DuplicateBackend, match=r"dist-a 1\.2 and by torch \S+ itself"):
        resolve_backend("eager_debug")


def test_unknown_names_suggest_torchs_too() -> None:
    with pytest.raises(UnknownBackend, match="'inductor'"):
        resolve_backend("inductr")


def test_options_go_to_a_callable_that_takes_them() -> None:
    seen = {}

    def with_options(gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: Any = None) -> Any:
        seen.update(options)
        return gm.forward

    check(with_options, options={"level": 3})
    assert seen == {"level": 3}


def test_no_keywords_are_passed_unless_given() -> None:
    check(lambda gm, example_inputs: gm.forward)
    check(lambda gm, example_inputs: gm.forward, mode="default")


@pytest.mark.parametrize("keywords", [{"options": {"a": 1}}, {"mode": "fast"}])
def test_options_for_a_callable_without_that_keyword_are_refused(keywords: dict[str, Any]) -> None:
    with pytest.raises(UnknownOption, match="has no keyword argument"):
        resolve_backend(lambda gm, example_inputs: gm.forward, **keywords)


def test_a_callable_that_cannot_take_a_graph_is_refused() -> None:
    with pytest.raises(BackendContractError, match=r"can't be called with \(gm, example_inputs\)"):
        resolve_backend(lambda gm: gm)  # type: ignore[arg-type, misc]


def test_inductors_options_are_checked_at_once() -> None:
    with pytest.raises(UnknownOption, match="Did you mean 'max_autotune'"):
        resolve_backend("inductor", {"max_autotun": True})
    with pytest.raises(OptionError, match="should be bool"):
        resolve_backend("inductor", {"max_autotune": 3})
    with pytest.raises(OptionError, match="mode"):
        resolve_backend("inductor", mode="no-such-mode")


def test_inductor_keeps_one_key_for_equal_options() -> None:
    first, second = (resolve_backend("inductor", {"max_autotune": True}) for _ in range(2))
    assert first.key == second.key
    assert first.key != resolve_backend("inductor").key


def test_ours_wins_over_torchs_of_the_same_name() -> None:
    pytest.importorskip("graphwright_eager")
    assert resolve_backend("eager").distribution == "graphwright-eager"


@pytest.mark.parametrize("name", ["eager", "aot_eager"])
def test_ours_works_in_torch_compile(name: str) -> None:
    pytest.importorskip("graphwright_eager")
    torch._dynamo.reset()
    inputs = PROGRAM.inputs()
    compiled = torch.compile(PROGRAM.function, backend=as_torch_backend(name))
    torch.testing.assert_close(compiled(*inputs), PROGRAM.function(*inputs))


def test_options_of_torch_compile_win_over_those_given_before() -> None:
    pytest.importorskip("graphwright_eager")
    torch._dynamo.reset()
    inputs = PROGRAM.inputs()
    backend = as_torch_backend("aot_eager", {"partition": "no_such"})
    compiled = torch.compile(PROGRAM.function, backend=backend, options={"partition": "min_cut"})
    torch.testing.assert_close(compiled(*inputs), PROGRAM.function(*inputs))


def test_what_is_known_of_a_backend_by_name_is_heeded(
    torch_entry_point: Callable[[str, Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    def reusing(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        seen["targets"] = [str(node.target) for node in gm.graph.nodes if node.op == "call_function"]
        seen["fake mode"] = fake_mode_of([])
        buffer = torch.empty(3, 3)

        def call(*inputs: Any) -> Any:
            return (buffer.copy_(gm(*inputs)[0]),)

        return call

    nature = Nature(Capabilities(training=False), GraphForm(level="aten"), traces_alone=True, reuses_results=True)
    monkeypatch.setattr(torch_backends, "KNOWN_TORCH_BACKENDS", {"theirs": nature})
    torch_entry_point("theirs", reusing)
    resolved = resolve_backend("theirs")
    assert not resolved.capabilities.training
    assert not resolved.takes_real_inputs
    inputs = PROGRAM.inputs()
    compiled = compile_program(resolved, PROGRAM, inputs)
    assert seen == {"targets": ["aten.mm.default", "aten.relu.default"], "fake mode": None}
    (first,), (second,) = compiled(*inputs), compiled(inputs[0] + 1, inputs[1])
    torch.testing.assert_close(first, PROGRAM.function(*inputs)[0])
    assert not torch.equal(first, second)


def test_sizes_that_only_tensors_have_are_seen() -> None:
    mode = new_fake_mode()
    x = as_symbolic(mode, torch.randn(5, 3), [0])
    assert has_hidden_sizes([x])
    assert not has_hidden_sizes([x, x.shape[0]])
    assert not has_hidden_sizes([torch.randn(2), 3])


def test_ours_are_listed_once_though_torch_compile_has_them_too() -> None:
    pytest.importorskip("graphwright_eager")
    names = [info.name for info in list_backends()]
    assert names.count("eager") == 1
    assert "graphwright_eager" not in names
    assert resolve_backend("graphwright_eager").distribution == "graphwright-eager"
