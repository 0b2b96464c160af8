"""The conformance kit on the backend `sample`."""

import pytest

from graphwright_plugins import testing


@pytest.fixture
def backend() -> str:
    """The backend by name, so that its entry point is exercised too."""
    return "sample"


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
