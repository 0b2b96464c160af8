"""The conformance kit on backends that ask for every form: what the framework delivers does what eager does."""

from collections.abc import Sequence
from typing import Any

import pytest
from torch import fx

from graphwright_plugins import Capabilities, CompiledGraph, GraphForm, NoOptions, run_in_eager, signature_of, testing

pytestmark = pytest.mark.slow

FORMS = {
    "torch": GraphForm(aliasing=False, literals=False, contiguous=False, sizes="from_tensors"),
    "torch fixed": GraphForm(aliasing=False, literals=False, sizes="fixed"),
    "aten": GraphForm(level="aten", aliasing=False, literals=False, contiguous=True, sizes="from_tensors"),
    "aten fixed": GraphForm(level="aten", literals=False, sizes="fixed", decompositions="core", partition="min_cut"),
    "aten in place": GraphForm(level="aten", in_place=True, weights="frozen"),
}


class PickyBackend:
    """Runs graphs as they are, and checks that they have the form it asked for."""

    name = "picky"
    options_type = NoOptions

    def __init__(self, form: GraphForm) -> None:
        self.graph_form = form
        # The kit compiles a graph once for all sizes, and only guards can tell that it serves one.
        self.capabilities = Capabilities(dynamic_shapes=form.sizes != "fixed", strides=not form.contiguous)

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: NoOptions) -> CompiledGraph:
        form, signature = self.graph_form, signature_of(graph)
        for output in signature.outputs:
            assert form.literals or output.name
            assert form.aliasing or (output.aliases_input is None and output.same_as is None)
        if form.level == "torch":
            forward: CompiledGraph = graph.forward
            return forward
        return run_in_eager(graph, example_inputs)


@pytest.fixture(params=FORMS)
def backend(request: pytest.FixtureRequest) -> PickyBackend:
    """A backend for each form."""
    return PickyBackend(FORMS[request.param])


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
