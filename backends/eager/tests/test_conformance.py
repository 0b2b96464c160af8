"""The conformance kit on `eager` and `aot_eager`."""

from graphwright_plugins import testing


class TestKit(testing.ConformanceKit):
    """See the base class."""
