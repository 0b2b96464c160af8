"""The conformance kit on `inductor_gpu`. Every program costs a kernel: see the tox environment for this backend."""

from __future__ import annotations

from typing import ClassVar

import pytest

from graphwright_plugins import testing
from graphwright_plugins.testing import KnownFailure

pytestmark = [
    pytest.mark.slow,
    # Inductor says that complex numbers are left to eager's kernels, and torch's own modules use what is deprecated.
    pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex:UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
]


class TestKit(testing.ConformanceKit):
    """See the base class."""

    class TestErrors(testing.ErrorTests):
        """See the base class."""

        known_failures: ClassVar = {
            "test_error_while_running": KnownFailure(
                "notyet",
                "a kernel of Inductor's raises RuntimeError for an index out of range; Graphwright then runs eager",
                raises=RuntimeError,
            )
        }
