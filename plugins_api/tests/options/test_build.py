from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from graphwright_plugins.errors import BackendContractError, OptionError, OptionTypeError, UnknownMode, UnknownOption
from graphwright_plugins.options.build import NoOptions, build_options


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
