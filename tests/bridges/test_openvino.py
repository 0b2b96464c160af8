"""A backend of somebody else's, made for torch.compile, by its name: OpenVINO's, on the CPU.

The package is no dependency of the tests; tox environment `bridges` installs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

import graphwright
from graphwright import events
from graphwright_plugins import resolve_backend, testing
from graphwright_plugins.testing import KnownFailure

pytest.importorskip("openvino.frontend.pytorch.torchdynamo.backend", reason="openvino is not installed")
transformers = pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]


@pytest.fixture
def backend() -> str:
    return "openvino"


# --------------------------------------------------------------------------------------------------- conformance kit


class TestContract(testing.ContractTests):
    pass


class TestForward(testing.ForwardTests):
    pass


class TestMutation(testing.MutationTests):
    pass


class TestAliasing(testing.AliasingTests):
    pass


class TestDynamicShapes(testing.DynamicShapeTests):
    pass


class TestRandom(testing.RandomTests):
    pass


class TestTraining(testing.TrainingTests):
    pass


class TestCalling(testing.CallingTests):
    pass


class TestNumerics(testing.NumericsTests):
    known_failures: ClassVar[Mapping[str, KnownFailure]] = {
        "test_special[special values]": KnownFailure("never", "its maximum, relu, clamp and exp lose NaN"),
        "test_dtype[torch.bool]": KnownFailure("never", "of many results of bools, one of int64 comes as bool"),
    }


class TestWeight(testing.WeightTests):
    pass


class TestLife(testing.LifeTests):
    known_failures: ClassVar[Mapping[str, KnownFailure]] = {
        "test_compilations_do_not_grow": KnownFailure(
            "never", "it keeps every graph that it compiled, in module globals"
        ),
    }

    def test_called_while_another_compiles(self) -> None:
        """It traces by `make_fx`, which patches torch for all threads; now and then a call meets that."""
        pytest.skip("its tracing is not made for threads")

    def test_threads_call_at_once(self) -> None:
        """All calls of a graph share one request, kept in module globals; now and then they meet in it."""
        pytest.skip("its requests are not made for threads")


class TestComposition(testing.CompositionTests):
    pass


class TestOptions(testing.OptionTests):
    known_failures: ClassVar[Mapping[str, KnownFailure]] = {
        "test_unknown_option": KnownFailure(
            "never", "its callable takes any options and looks at those it knows", pytest.fail.Exception
        ),
    }


class TestErrors(testing.ErrorTests):
    known_failures: ClassVar[Mapping[str, KnownFailure]] = {
        "test_error_while_running": KnownFailure(
            "never", "its index operations do not look whether indices are in range", pytest.fail.Exception
        ),
    }


# ---------------------------------------------------------------------------------------------------------- programs


def bert() -> tuple[nn.Module, list[dict[str, Any]]]:
    config = transformers.BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37
    )
    lengths = (7, 7, 9)
    return transformers.BertModel(config), [{"input_ids": torch.randint(0, 99, (2, length))} for length in lengths]


def gpt2() -> tuple[nn.Module, list[dict[str, Any]]]:
    config = transformers.GPT2Config(vocab_size=99, n_positions=32, n_embd=32, n_layer=2, n_head=4)
    tokens = [torch.randint(0, 99, (2, length)) for length in (5, 8)]
    return transformers.GPT2LMHeadModel(config), [{"input_ids": t, "use_cache": False} for t in tokens]


@pytest.mark.parametrize("make", [bert, gpt2])
def test_a_model_runs_as_in_eager(make: Any) -> None:
    torch.manual_seed(0)
    model, calls = make()
    model.eval()
    compiled = graphwright.compile(model, backend="openvino")
    with torch.no_grad(), events.collected(events.GraphCompiled, events.GraphLeftToEager) as found:
        for inputs in calls:
            actual, expected = compiled(**inputs)[0], model(**inputs)[0]
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    assert {type(event) for event in found} == {events.GraphCompiled}
    assert {event.backend for event in found} == {"openvino"}


def test_what_it_forgets_by_itself_is_right() -> None:
    def changes(x: torch.Tensor, counter: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        counter.add_(1)
        y = x.relu()
        return y, y.view(-1), x

    compiled = graphwright.compile(changes, backend="openvino", fullgraph=True)
    x, counter = torch.randn(2, 3), torch.zeros(2)
    y, flat, same = compiled(x, counter)
    torch.testing.assert_close(y, x.relu())
    assert same is x
    assert flat.data_ptr() == y.data_ptr()
    assert counter.tolist() == [1, 1]


def test_gradients_go_by_the_fallback_and_that_is_told() -> None:
    layer = nn.Linear(3, 2)
    compiled = graphwright.compile(layer, backend="openvino")
    x = torch.randn(4, 3)
    compiled(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad, x.sum(0).expand(2, 3))


def test_it_is_named_with_its_distribution() -> None:
    resolved = resolve_backend("openvino")
    assert resolved.distribution == "openvino"
    assert not resolved.capabilities.training
