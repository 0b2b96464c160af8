"""All of the kit as one class to inherit from."""

from .aliasing import AliasingTests
from .artifacts import ArtifactTests
from .base import KitSettings
from .calling import CallingTests
from .composition import CaptureTests, CompositionTests
from .contract import ContractTests
from .dynamic_shapes import DynamicShapeTests
from .failures import ErrorTests
from .forward import ForwardTests
from .lifetime import LifeTests
from .loading import LoadingTests
from .mutation import MutationTests
from .numerics import NumericsTests
from .option_values import OptionTests
from .partitioning import PartitionTests
from .randomness import RandomTests
from .sanity import PerformanceSanityTests
from .training import TrainingTests
from .weights import WeightTests


class ConformanceKit(KitSettings):
    """Every class of the kit.

    A backend's test module inherits from it, and gives what is different for a class by a class of the same name:

        class TestMine(testing.ConformanceKit):
            class TestErrors(testing.ErrorTests):
                known_failures = {"test_error_while_running": testing.KnownFailure("notyet", "…")}
    """

    class TestLoading(LoadingTests):
        """See the base class."""

    class TestContract(ContractTests):
        """See the base class."""

    class TestOptions(OptionTests):
        """See the base class."""

    class TestForward(ForwardTests):
        """See the base class."""

    class TestNumerics(NumericsTests):
        """See the base class."""

    class TestCalling(CallingTests):
        """See the base class."""

    class TestAliasing(AliasingTests):
        """See the base class."""

    class TestMutation(MutationTests):
        """See the base class."""

    class TestDynamicShapes(DynamicShapeTests):
        """See the base class."""

    class TestWeights(WeightTests):
        """See the base class."""

    class TestTraining(TrainingTests):
        """See the base class."""

    class TestPartition(PartitionTests):
        """See the base class."""

    class TestRandom(RandomTests):
        """See the base class."""

    class TestArtifacts(ArtifactTests):
        """See the base class."""

    class TestErrors(ErrorTests):
        """See the base class."""

    class TestLife(LifeTests):
        """See the base class."""

    class TestPerformanceSanity(PerformanceSanityTests):
        """See the base class."""

    class TestComposition(CompositionTests):
        """See the base class."""

    class TestCapture(CaptureTests):
        """See the base class."""
