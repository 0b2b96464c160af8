"""All of the kit as one class to inherit from."""

from collections.abc import Iterator
from typing import Any

from .aliasing import AliasingTests
from .artifacts import ArtifactTests
from .base import ConformanceTests
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
from .option_sets import KitSettings
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

    `option_sets` runs all of it for other options, too.
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Refuse a class inside that is meant to take the place of one of the kit's, and doesn't.

        Raises:
            TypeError: It has another name than that, or doesn't inherit from it.
        """
        super().__init_subclass__(**keywords)
        for name, inside in vars(cls).items():
            fault = _why_not_inside(name, inside, cls) if isinstance(inside, type) else None
            if fault is not None:
                raise TypeError(f"{cls.__qualname__}.{name} {fault}")

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


def _kit_classes() -> Iterator[tuple[str, type[ConformanceTests]]]:
    """The classes of the kit that tests inherit from, with their names in `ConformanceKit`."""
    for name, inside in vars(ConformanceKit).items():
        if isinstance(inside, type) and issubclass(inside, ConformanceTests):
            yield name, inside.__mro__[1]


def _why_not_inside(name: str, inside: type, outer: type) -> str | None:
    """Why a class inside of a vendor's kit class would do something else than it seems to; None where it is right."""
    by_name = dict(_kit_classes())
    if name in by_name and not issubclass(inside, by_name[name]):
        theirs = by_name[name].__name__
        return f"would take away all tests of that name: inherit from testing.{theirs}, or choose another name"
    meant = [own for own, tests in by_name.items() if issubclass(inside, tests)]
    if meant and name not in meant:
        theirs = by_name[meant[0]].__name__
        return (
            f"inherits from testing.{theirs}, and would run beside the kit's own class for that, which knows nothing "
            f"of what is written here: call it {meant[0]}, or write it outside of {outer.__name__} to run both"
        )
    if not meant and hasattr(inside, "known_failures") and not issubclass(inside, ConformanceTests):
        return "has known_failures, and is no class of the kit: inherit from a class of testing"
    return None
