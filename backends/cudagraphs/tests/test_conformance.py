"""The conformance kit on `cudagraphs` with the simulated recorder; tox's environment for it runs all."""

import pytest

from graphwright_plugins import testing

# The kit calls twice before a backward, and with many sizes: both are told, and right.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::graphwright_cudagraphs.CudaGraphsWarning"),
]


class TestKit(testing.ConformanceKit):
    """See the base class."""
