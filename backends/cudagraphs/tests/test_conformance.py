"""The conformance kit on `cudagraphs` with the simulated recorder; tox's environment for it runs all."""

import pytest

from graphwright_plugins import testing

# The kit calls twice before a backward, and with many sizes: both are told, and right.
pytestmark = pytest.mark.filterwarnings("ignore::graphwright_cudagraphs.CudaGraphsWarning")


@pytest.mark.slow
class TestForward(testing.ForwardTests):
    """See the base class."""


class TestTraining(testing.TrainingTests):
    """See the base class."""


class TestMutation(testing.MutationTests):
    """See the base class."""


@pytest.mark.slow
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
