"""The conformance kit on the backend `sample`."""

import pytest

from graphwright_plugins import testing


@pytest.fixture
def backend() -> str:
    """The backend by name, so that its entry point is exercised too."""
    return "sample"


class TestSample(testing.ConformanceKit):
    """All of the kit."""

    class TestOptions(testing.OptionTests):
        """One class with something of its own: options other than the defaults, to compile with."""

        other_options = ({"most_calls": 5},)
