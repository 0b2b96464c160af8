"""The backends under test."""

import pytest


@pytest.fixture(params=["eager", "aot_eager"])
def backend(request: pytest.FixtureRequest) -> str:
    """Each of this package's backends by name, so that its entry point is exercised too."""
    return str(request.param)
