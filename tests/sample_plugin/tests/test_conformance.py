"""The conformance kit on the backend `sample`."""

import pytest
import torch
from graphwright_sample_plugin import SampleOptions, sample
from graphwright_sample_plugin.backend import remove_neutral_operators
from torch import fx

from graphwright_plugins import Backend, testing


@pytest.fixture
def backend() -> Backend:
    """The backend under test."""
    return sample


class TestForward(testing.ForwardTests):
    """See the base class."""


class TestTraining(testing.TrainingTests):
    """See the base class."""


class TestMutation(testing.MutationTests):
    """See the base class."""


class TestAliasing(testing.AliasingTests):
    """See the base class."""


class TestDynamicShapes(testing.DynamicShapeTests):
    """See the base class."""


class TestRandom(testing.RandomTests):
    """See the base class."""


class TestContract(testing.ContractTests):
    """See the base class."""


class TestErrors(testing.ErrorTests):
    """See the base class."""


def operators() -> fx.GraphModule:
    """A graph of operators, two of them neutral."""
    add, mul = torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor
    graph = fx.Graph()
    x = graph.placeholder("x")
    chain = [x]
    for target, number in ((add, 0), (mul, 2), (mul, 1), (add, 1)):
        chain.append(graph.call_function(target, (chain[-1], number)))
    graph.output((chain[-1],))
    for node in chain:
        node.meta["val"] = torch.empty(3)
    return fx.GraphModule(torch.nn.Module(), graph)


@pytest.mark.parametrize(("limit", "removed"), [(None, 2), (1, 1), (0, 0)])
def test_neutral_operators_are_removed(limit: int | None, removed: int) -> None:
    graph = operators()
    assert remove_neutral_operators(graph, limit) == removed
    assert torch.equal(graph(torch.ones(3))[0], torch.full((3,), 3.0))


def test_options_have_defaults() -> None:
    assert SampleOptions() == SampleOptions(simplify=True, max_removed=None)
