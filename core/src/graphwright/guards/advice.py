"""What to do about a guard that failed, so that it does not cost a capture again and again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from graphwright.guards.failure import GuardFailure

_SIZE = re.compile(r"(?P<tensor>.*)\.size\((?P<dim>\d+)\)")
_OF_KIND = {
    "type": "pass values of one type",
    "length": (
        "each length is captured by itself: pad to one length, or stack the items into one tensor, whose size may vary"
    ),
    "keys": (
        "each set of keys is captured by itself: make the dict with all its keys at the start, or pass what is needed"
    ),
    "presence": "each combination of what exists is captured by itself: set it at the start, in __init__ say",
    "dtype": "each dtype is captured by itself: convert before the call",
    "device type": "each device is captured by itself",
    "device index": "each device is captured by itself",
    "layout": "each layout is captured by itself: convert before the call",
    "rank": "each number of dimensions is captured by itself: unsqueeze or flatten before the call",
    "requires_grad": "with and without gradient are captured each by itself: detach(), or call it in one way",
    "stride": "each order of memory is captured by itself: contiguous() before the call",
    "aliasing": "whether tensors share memory changes what writing to them does: clone() before the call",
    "global state": "each state is captured by itself: call the function always under one, or set it inside",
}
_FUNCTION = (
    "a function, or what it is bound to, is another object at each call: make it once, outside of the function that "
    "calls, and pass what varies as an argument"
)
_OBJECT = "an object is another at each call: use the same one, or pass what is needed of it"


OBJECTS_GONE = GuardFailure(
    "identity", "", "every entry was made for a function, class or object that is gone by now", advice=_FUNCTION
)
"""Why a function without entries is captured once more."""


@dataclass(frozen=True)
class ShapeRules:
    """How the sizes and numbers of the function at hand are treated."""

    dynamic: bool | None = None
    """What `compile` was told."""
    automatic: bool = True
    """Whether what varies becomes a symbol."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Sizes and numbers that the program asked for, each with where it did."""
    floats_vary: bool = True
    """Whether the backend can do with floats that vary."""


def advised(failure: GuardFailure, rules: ShapeRules) -> GuardFailure:
    """A failure with the advice that fits it."""
    return replace(failure, advice=_advice(failure, rules))


def _advice(failure: GuardFailure, rules: ShapeRules) -> str:
    if failure.kind == "identity":
        told = f"{failure.expected} {failure.actual} {failure.text}"
        return _FUNCTION if "function" in told or "method" in told else _OBJECT
    if failure.kind in ("size", "relation of sizes"):
        return _of_size(failure, rules)
    if failure.kind == "value":
        return _of_value(failure, rules)
    return _OF_KIND.get(failure.kind, "")


def _where_fixed(asked_at: str) -> str:
    place = f":\n{asked_at.rstrip()}\n  " if asked_at else " "
    return (
        f"the program asks for its value{place}so each value is captured by itself; make that code work for every one"
    )


def _of_size(failure: GuardFailure, rules: ShapeRules) -> str:
    asked = next((rules.fixed[name] for name in failure.source.split(" and ") if name in rules.fixed), None)
    if asked is not None:
        return f"{failure.source}: {_where_fixed(asked)}"
    if failure.kind == "relation of sizes":
        return (
            "the program, or an operation in it, treats sizes in this range in its own way (a comparison, "
            "broadcasting): each way is captured once"
        )
    match = _SIZE.fullmatch(failure.source)
    marked = f"{match['tensor']}, {match['dim']}" if match is not None else "tensor, dim"
    if rules.dynamic is False:
        return f"dynamic=False captures each size by itself: leave it out, or graphwright.mark_dynamic({marked})"
    if 0 in (failure.expected, failure.actual) or 1 in (failure.expected, failure.actual):
        return "sizes 0 and 1 are always captured by themselves, as broadcasting depends on them"
    if not rules.automatic:
        return f"automatic_dynamic_shapes is off: turn it on, or graphwright.mark_dynamic({marked})"
    return (
        f"the size varies from now on; graphwright.mark_dynamic({marked}) on the first tensor (maybe_mark_dynamic if "
        "the program may fix it), or dynamic=True, saves this recompile"
    )


def _of_value(failure: GuardFailure, rules: ShapeRules) -> str:
    if failure.source in rules.fixed:
        return f"{failure.source}: {_where_fixed(rules.fixed[failure.source])}, or pass it as a tensor"
    is_number = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (failure.expected, failure.actual))
    if not is_number:
        return (
            f"each value of {failure.source} is captured by itself: keep it to a few, do outside of the function what "
            "depends on it, or make it a constant"
        )
    may_vary = rules.floats_vary or type(failure.actual) is not float
    if rules.automatic and rules.dynamic is None and may_vary:
        return f"the number varies from now on; a tensor as {failure.source}, or dynamic=True, saves this recompile"
    return f"each value of {failure.source} is captured by itself: pass it as a tensor, or make it a constant"
