"""Loads every module that registers handlers; whoever captures imports this one."""

from graphwright.builtin_calls import (
    arithmetic,
    attributes,
    containers,
    instance_checks,
    iteration,
    numeric,
    objects,
    polyfills,
    tensors,
    text,
    torch_functions,
    torch_state,
)

__all__ = [
    "arithmetic",
    "attributes",
    "containers",
    "instance_checks",
    "iteration",
    "numeric",
    "objects",
    "polyfills",
    "tensors",
    "text",
    "torch_functions",
    "torch_state",
]
