"""The conformance kit: what every backend must do, as pytest classes to inherit from.

A backend's test module inherits from the classes and provides a fixture `backend`, which returns a name, a `Backend`
object or a `(gm, example_inputs)` callable:

    import pytest
    from graphwright_plugins import testing

    @pytest.fixture
    def backend():
        return "mine"

    class TestForward(testing.ForwardTests):
        pass

Tests ask the backend's `Capabilities` what they may expect. What a backend is known to do wrong is written down next to
its own tests, in `known_failures`.
"""

from .aliasing import AliasingTests
from .base import ConformanceTests, KnownFailure
from .contract import ContractTests
from .dynamic_shapes import DynamicShapeTests
from .failures import ErrorTests
from .forward import ForwardTests
from .mutation import MutationTests
from .program import Program, compile_program, trace
from .randomness import RandomTests
from .training import TrainingTests

__all__ = [
    "AliasingTests",
    "ConformanceTests",
    "ContractTests",
    "DynamicShapeTests",
    "ErrorTests",
    "ForwardTests",
    "KnownFailure",
    "MutationTests",
    "Program",
    "RandomTests",
    "TrainingTests",
    "compile_program",
    "trace",
]
