"""What a backend is known to fail: which tests an entry means, and that it means any."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from graphwright_plugins.naming import did_you_mean, listing

from .option_sets import SET_FIXTURE
from .program import Program


@dataclass(frozen=True)
class KnownFailure:
    """A test that a backend is known to fail, and why."""

    kind: Literal["notimpl", "notyet", "never"]
    """`"notimpl"`: the backend doesn't do it. `"notyet"`: what it builds on doesn't. `"never"`: it can't be done."""
    reason: str
    """Why, as a clause."""
    raises: type[BaseException] = AssertionError
    """The exception with which the test fails; any other one is an error."""


def keys_of(item: Any) -> list[str]:
    """The keys of `known_failures` that mean a test, from the narrowest to the widest.

    The name that pytest gives it, that without the option set, the test for one value of one parameter, and the test.
    """
    name = getattr(item, "originalname", None) or item.name
    parameters = getattr(item, "callspec", None)
    if parameters is None:
        return list(dict.fromkeys((item.name, name)))
    values: Mapping[str, Any] = parameters.params
    own = [_label(value) for parameter, value in values.items() if parameter != SET_FIXTURE]
    in_set = [_label(value) for parameter, value in values.items() if parameter == SET_FIXTURE]
    bare = item.name
    for label in in_set:
        bare = bare.replace(f"[{label}-", "[", 1)
    return list(dict.fromkeys((item.name, bare, *(f"{name}[{label}]" for label in (*own, *in_set)), name)))


def _label(value: Any) -> str:
    """A parameter's value, as pytest shows it in the names of the kit's tests."""
    return value.id if isinstance(value, Program) else str(getattr(value, "__name__", value))


def untrue_entries(items: Iterable[Any]) -> list[str]:
    """Entries of the lists of these tests' classes that mean no test, as sentences.

    Args:
        items: The tests that were collected. What an entry says of a parameter is looked at only where some test of
            that function is among them.
    """
    by_class: defaultdict[type, list[Any]] = defaultdict(list)
    for item in items:
        if getattr(item.cls, "known_failures", None):
            by_class[item.cls].append(item)
    faults = []
    for owner, tests in by_class.items():
        meant = {key for item in tests for key in keys_of(item)}
        for key in owner.known_failures:  # type: ignore[attr-defined]  # the classes are the kit's
            if key not in meant:
                faults += _fault(f"known_failures of {tests[0].parent.nodeid}", owner, key, meant)
    return faults


def _fault(whose: str, owner: type, key: str, meant: set[str]) -> list[str]:
    name = key.partition("[")[0]
    known = [test for test in dir(owner) if test.startswith("test")]
    head = f"{whose} has an entry {key!r}, and there is no such test."
    if name not in known:
        return [f"{head}{did_you_mean(name, known)} Its tests are: {listing(known)}."]
    others = sorted(test for test in meant if test.startswith(f"{name}["))
    if name not in meant or name == key:  # nothing of it was collected
        return []
    told = f"It is run as: {listing(others)}." if others else f"{name!r} is run once, without parameters."
    return [f"{head}{did_you_mean(key, others)} {told}"]


class ListChecks:
    """A pytest plugin that refuses to run where a list of known failures names a test that isn't there."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Look at the lists before tests are left out by name or mark.

        Raises:
            pytest.UsageError: An entry means no test.
        """
        taken = [item for item in items if isinstance(getattr(item, "cls", None), type)]
        # Where single tests were asked for, the others of the same function weren't collected.
        partial = any("[" in str(argument) for argument in session.config.args)
        faults = [] if partial else untrue_entries(taken)
        if faults:
            raise pytest.UsageError("\n".join(faults))
