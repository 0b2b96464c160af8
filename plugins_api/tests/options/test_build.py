import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from graphwright_plugins.errors import BackendContractError, OptionError, OptionTypeError, UnknownMode, UnknownOption
from graphwright_plugins.options.build import NoOptions, build_options, why_not_modes, why_not_options


@dataclass(frozen=True)
class Options:
    """Options of the backend in these tests."""

    level: int = 1
    precision: str = "high"
    passes: tuple[str, ...] = ()
    derived: int = field(init=False, default=7)

    def __post_init__(self) -> None:
        if self.level > 3:
            raise ValueError("level must be at most 3")


MODES: Mapping[str, Mapping[str, Any]] = {"fast": {"level": 3, "precision": "low"}}


def build(options: Any = None, mode: str | None = None) -> Any:
    return build_options(Options, options, backend="b", mode=mode, modes=MODES)


@pytest.mark.parametrize("options", [None, {}])
def test_nothing_given_means_defaults(options: Any) -> None:
    assert build(options) == Options()


def test_values_are_taken() -> None:
    assert build({"level": 2, "passes": ("a",)}) == Options(level=2, passes=("a",))


def test_an_instance_is_taken_as_it_is() -> None:
    assert build(Options(level=2)) == Options(level=2)


def test_unknown_option_names_itself_the_nearest_and_all() -> None:
    with pytest.raises(UnknownOption) as caught:
        build({"levle": 2})
    message = str(caught.value)
    assert message == (
        "backend 'b' has no option 'levle'. Did you mean 'level'? Its options are: 'level', 'passes', 'precision'."
    )
    assert (caught.value.backend, caught.value.option) == ("b", "levle")
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)


def test_a_field_that_is_not_set_by_users_is_no_option() -> None:
    with pytest.raises(UnknownOption):
        build({"derived": 1})


def test_wrong_type_names_field_expected_and_found() -> None:
    with pytest.raises(OptionTypeError, match=r"option 'level' of backend 'b' must be int, not 'two' \(str\)"):
        build({"level": "two"})


def test_what_the_dataclass_refuses_is_an_option_error() -> None:
    with pytest.raises(OptionError, match="level must be at most 3") as caught:
        build({"level": 4})
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("options", [[("level", 1)], "level", 3])
def test_options_must_be_a_mapping(options: Any) -> None:
    with pytest.raises(OptionTypeError, match="must be a dict"):
        build(options)


def test_option_names_must_be_strings() -> None:
    with pytest.raises(OptionTypeError, match="must be a string, not 3"):
        build({3: 1})


def test_a_backend_without_options_says_so() -> None:
    with pytest.raises(UnknownOption, match="It takes no options"):
        build_options(NoOptions, {"a": 1}, backend="b")


def test_mode_sets_options_and_explicit_ones_win() -> None:
    assert build(mode="fast") == Options(level=3, precision="low")
    assert build({"level": 1}, mode="fast") == Options(level=1, precision="low")


def test_default_mode_always_exists() -> None:
    assert build(mode="default") == Options()


def test_unknown_mode_lists_the_modes() -> None:
    with pytest.raises(UnknownMode, match=r"no mode 'fsat'\. Did you mean 'fast'\? Its modes are: 'fast'\."):
        build(mode="fsat")


class Plain:
    pass


@dataclass
class Thawed:
    level: int = 1


@dataclass(frozen=True)
class WithoutDefault:
    level: int


@pytest.mark.parametrize(
    ("options_type", "fault"),
    [(Plain, "not a dataclass"), (Thawed, "isn't frozen"), (WithoutDefault, "'level' has no default")],
)
def test_options_types_that_break_the_contract(options_type: type[Any], fault: str) -> None:
    with pytest.raises(BackendContractError, match=fault):
        build_options(options_type, {}, backend="b")


@dataclass(frozen=True)
class Unresolved:
    level: "NotDefinedAnywhere | None" = None  # type: ignore[name-defined]  # noqa: F821


@dataclass(frozen=True)
class WrongDefault:
    level: int = "high"  # type: ignore[assignment]


@dataclass(frozen=True)
class WrongMade:
    passes: tuple[str, ...] = field(default_factory=lambda: (3,))  # type: ignore[arg-type,return-value]


@dataclass(frozen=True)
class Raising:
    passes: tuple[str, ...] = field(default_factory=lambda: 1 / 0)  # type: ignore[arg-type,return-value]


@dataclass(frozen=True)
class OddKind:
    level: "NewType" = 1  # type: ignore[valid-type]


NewType = TypeVar("NewType")


@pytest.mark.parametrize(
    ("options_type", "told"),
    [
        (Unresolved, r"whose annotations can't be resolved \(NameError: name 'NotDefinedAnywhere' is not defined\)"),
        (WrongDefault, r"whose field 'level' has the default 'high', which isn't int"),
        (WrongMade, r"whose field 'passes' has the default \(3,\), which isn't tuple"),
        (Raising, r"whose field 'passes' has a default_factory that raised ZeroDivisionError"),
        (OddKind, r"whose field 'level' can't be an option: an option's annotation must be"),
    ],
)
def test_a_class_that_could_not_be_used_is_refused_at_once(options_type: type[Any], told: str) -> None:
    assert re.search(told, str(why_not_options(options_type)))
    with pytest.raises(BackendContractError, match=f"options_type of backend 'b' is {options_type.__name__}, {told}"):
        build_options(options_type, {"level": 1}, backend="b")


@pytest.mark.parametrize(
    ("modes", "told"),
    [
        (["fast"], "has modes of type list"),
        (None, "has modes of type NoneType"),
        ({"fast": ["level"]}, r"has a mode 'fast': \['level'\]; modes are names, each with a mapping"),
        ({3: {}}, "has a mode 3"),
        ({"fast": {"levle": 1}}, "has a mode 'fast' that sets 'levle', which is no option.*Did you mean 'level'"),
        ({"fast": {3: 1}}, "sets 3, which is no option"),
        ({"fast": {"level": "1"}}, "sets the option 'level' to '1'; it must be int"),
        ({"fast": {"derived": 1}}, "sets 'derived', which is no option"),
    ],
)
def test_wrong_modes_are_told(modes: Any, told: str) -> None:
    assert re.search(told, str(why_not_modes(modes, Options)))
    assert why_not_modes(MODES, Options) is None


@dataclass(frozen=True)
class Refusing:
    level: int = 0

    def __post_init__(self) -> None:
        if self.level > 3:
            raise OptionTypeError("level goes to 3", backend="b", option="level")


def test_an_error_of_the_contract_that_the_dataclass_raises_passes_through() -> None:
    with pytest.raises(OptionTypeError, match=r"^level goes to 3$") as caught:
        build_options(Refusing, {"level": 4}, backend="b")
    assert caught.value.option == "level"
