"""The conformance kit: what every backend must do, as pytest classes to inherit from.

A backend's test module inherits from the kit and provides a fixture `backend`, which returns a name, a `Backend`
object or a `(gm, example_inputs)` callable:

    import pytest
    from graphwright_plugins import testing

    @pytest.fixture
    def backend():
        return "mine"

    class TestMine(testing.ConformanceKit):
        pass

The classes inside can be inherited from by themselves, too. Tests ask the backend's `Capabilities`, and which of the
optional methods it has, and skip what it doesn't claim. What a backend is known to do wrong is written down next to
its own tests, in `known_failures`. `python -m graphwright_plugins.testing report --backend NAME` runs all of it, and
tells by theme what came of it.
"""

# ruff: noqa: E402  what pytest is told has to come before the imports

import pkgutil

import pytest

# Assertions of the kit explain themselves as those of test modules do.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)))

from .aliasing import AliasingTests
from .artifacts import ArtifactTests
from .base import ConformanceTests
from .calling import CallingTests
from .composition import CaptureTests, CompositionTests
from .contract import ContractTests
from .dynamic_shapes import DynamicShapeTests
from .failures import ErrorTests
from .forward import ForwardTests
from .kit import ConformanceKit
from .known_failures import KnownFailure
from .lifetime import LifeTests
from .loading import LoadingTests
from .mutation import MutationTests
from .numerics import NumericsTests
from .option_sets import KitSettings
from .option_values import OptionTests
from .partitioning import PartitionTests
from .program import Program, compile_program, trace
from .randomness import RandomTests
from .sanity import PerformanceSanityTests
from .themes import Theme
from .training import TrainingTests
from .weights import WeightTests

__all__ = [
    "AliasingTests",
    "ArtifactTests",
    "CallingTests",
    "CaptureTests",
    "CompositionTests",
    "ConformanceKit",
    "ConformanceTests",
    "ContractTests",
    "DynamicShapeTests",
    "ErrorTests",
    "ForwardTests",
    "KitSettings",
    "KnownFailure",
    "LifeTests",
    "LoadingTests",
    "MutationTests",
    "NumericsTests",
    "OptionTests",
    "PartitionTests",
    "PerformanceSanityTests",
    "Program",
    "RandomTests",
    "Theme",
    "TrainingTests",
    "WeightTests",
    "compile_program",
    "trace",
]
