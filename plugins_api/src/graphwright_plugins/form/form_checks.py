"""Refuses what the fields of a `GraphForm` can't be, with what they can be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import torch

from graphwright_plugins.errors import DeclarationError
from graphwright_plugins.naming import did_you_mean
from graphwright_plugins.protocol import as_set, check_flag
from graphwright_plugins.torch_compat import decomposable_operators, decompositions_by_name

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "level": ("torch", "aten"),
    "sizes": ("inputs", "from_tensors", "fixed"),
    "weights": ("inputs", "frozen", "refit"),
    "partition": ("default", "min_cut"),
    "decompositions": ("none", "core"),
}
"""The names that fields may have."""
FLAGS: Final = ("in_place", "aliasing", "literals", "contiguous")
_COMPLETE_NAMESPACES: Final = ("aten", "prims")
"""Those whose operators are all there once torch is imported; others may be registered later than a form is made."""


def check_choice(name: str, value: object, others: str = "") -> None:
    """Check a field that is one of a few names.

    Args:
        name: The field.
        value: Its value.
        others: What else it may be, for the message.

    Raises:
        DeclarationError: It is another.
    """
    allowed = CHOICES[name]
    if not (isinstance(value, str) and value in allowed):
        near = did_you_mean(value, allowed) if isinstance(value, str) else ""
        expected = " or ".join([*map(repr, allowed), *filter(None, [others])])
        raise DeclarationError(f"GraphForm has {name}={value!r}; it must be {expected}.{near}")


def check_flags(values: Mapping[str, object]) -> None:
    """Check the fields that are True or False.

    Raises:
        DeclarationError: One is neither.
    """
    for name, value in values.items():
        check_flag("GraphForm", name, value)


def check_decompositions(value: object) -> None:
    """Check which operators are to be broken up.

    Raises:
        DeclarationError: It is no name of a set, and neither names of operators nor a table of functions.
    """
    others = "names of operators such as ['aten.gelu'], or a mapping of operators to functions"
    if isinstance(value, str) or not isinstance(value, Collection):
        check_choice("decompositions", value, others)
    elif isinstance(value, Mapping):
        for op, function in value.items():
            if isinstance(op, str) or not callable(function):
                raise DeclarationError(
                    f"GraphForm has {op!r}: {function!r} in decompositions; a table is of operators such as "
                    "torch.ops.aten.gelu.default, each with the function that replaces it"
                )
    else:
        for name in value:
            _check_operator_name("decompositions", name, _has_decomposition, "torch has no decomposition for")


def check_keep(value: object) -> None:
    """Check which operators are to be left whole.

    Raises:
        DeclarationError: It is neither a function nor names of operators.
    """
    if callable(value):
        return
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Collection):
        raise DeclarationError(
            f"GraphForm has keep={value!r}; it must be names of operators such as ['aten.gelu'], or a function that is "
            "asked for each operator"
        )
    for name in value:
        _check_operator_name("keep", name, _is_operator, "torch has no operator")


def dtypes_of(value: Any) -> frozenset[torch.dtype] | None:
    """The dtypes as a set, or None for all.

    Raises:
        DeclarationError: They are no dtypes.
    """
    if value is None:
        return None
    return as_set("GraphForm", "dtypes", value, torch.dtype, "dtypes such as torch.float32, or None for all")


def _check_operator_name(field: str, name: object, is_known: Callable[[str], bool], fault: str) -> None:
    how = "operators are named like 'aten.gelu' or 'aten.gelu.default'"
    if not isinstance(name, str):
        raise DeclarationError(f"GraphForm has {name!r} in {field}; {how}")
    namespace, dot, _ = name.partition(".")
    if not dot or "::" in name:
        raise DeclarationError(f"GraphForm has {name!r} in {field}; {how}.{_suggested(name)}")
    if namespace in _COMPLETE_NAMESPACES and not is_known(name):
        raise DeclarationError(f"GraphForm has {name!r} in {field}: {fault} {name!r}; {how}.{_suggested(name)}")


def _suggested(name: str) -> str:
    plain = name.replace("::", ".")
    for candidate in (plain, f"aten.{plain}"):
        if "." in candidate and _is_operator(candidate):
            return f" Did you mean {candidate!r}?"
    return did_you_mean(plain, sorted(decomposable_operators()))


def _is_operator(name: str) -> bool:
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None


def _has_decomposition(name: str) -> bool:
    try:
        return bool(decompositions_by_name([name]))
    except ValueError:
        return False
