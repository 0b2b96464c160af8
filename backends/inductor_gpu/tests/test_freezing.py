"""Weights as constants: `options={"freezing": True}`, under the framework's guard."""

import pytest
import torch

import graphwright
import graphwright.events as events
from graphwright_plugins import Backend, resolve_backend

FREEZING = {"freezing": True}


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.last = torch.nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(torch.relu(self.norm(self.first(x))))
        return result


def test_the_form_depends_on_the_option() -> None:
    for options, expected in (({}, "inputs"), (FREEZING, "frozen")):
        resolved = resolve_backend("inductor_gpu", options)
        backend: Backend = resolved.backend
        assert backend.graph_form(resolved.options).weights == expected  # type: ignore[attr-defined]


def test_a_changed_weight_gives_its_own_result() -> None:
    model, x = torch.nn.Linear(4, 2), torch.randn(3, 4)
    compiled = graphwright.compile(model, backend="inductor_gpu", options=FREEZING)
    kinds = (events.BackendArtifact, events.FrozenWeightsChanged, events.GraphFailed)
    with torch.no_grad(), events.collected(*kinds) as told:
        torch.testing.assert_close(compiled(x), model(x))
        code = next(event.text for event in told if isinstance(event, events.BackendArtifact))
        assert "_frozen_param" in code  # constants of the generated module
        model.bias.add_(1)
        torch.testing.assert_close(compiled(x), model(x))
    changes = [event for event in told if isinstance(event, events.FrozenWeightsChanged)]
    assert [(change.changed, change.how) for change in changes] == [(("L['self'].bias",), "written to")]
    assert not any(isinstance(event, events.GraphFailed) for event in told)


@pytest.mark.slow
def test_a_replaced_buffer_is_noticed() -> None:
    torch.manual_seed(0)
    model, x = Classifier().eval(), torch.randn(3, 4)
    compiled = graphwright.compile(model, backend="inductor_gpu", options=FREEZING)
    with torch.no_grad(), events.collected(events.FrozenWeightsChanged) as told:
        torch.testing.assert_close(compiled(x), model(x))
        model.norm.running_mean = torch.ones(8)
        torch.testing.assert_close(compiled(x), model(x))
    assert [change.how for change in told if isinstance(change, events.FrozenWeightsChanged)] == ["replaced"]


@pytest.mark.slow
def test_instances_and_sizes_and_training() -> None:
    torch.manual_seed(0)
    models = [Classifier().eval() for _ in range(2)]
    compiled = [graphwright.compile(model, backend="inductor_gpu", options=FREEZING, dynamic=True) for model in models]
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        with torch.no_grad():
            for one, model in zip(compiled, models, strict=True):
                torch.testing.assert_close(one(x), model(x))
    x = torch.randn(3, 4)
    compiled[0](x).sum().backward()
    mine = [p.grad for p in models[0].parameters()]
    models[0].zero_grad()
    models[0](x).sum().backward()
    torch.testing.assert_close(mine, [p.grad for p in models[0].parameters()])
