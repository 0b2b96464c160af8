"""A function of torch needs no guard where a module holds it, and needs one where an argument does."""

from __future__ import annotations

from typing import Any

import torch

import graphwright


def test_a_torch_function_given_as_an_argument_is_compared_anew() -> None:
    def chosen(x: torch.Tensor, operation: Any) -> torch.Tensor:
        return x + 1 if torch.Tensor.add is operation else x * 3

    compiled = graphwright.compile(chosen, backend="eager")
    x = torch.ones(2)
    for operation in (torch.Tensor.add, torch.Tensor.mul, torch.Tensor.add, torch.sin):
        assert torch.equal(compiled(x, operation), chosen(x, operation))


def test_a_class_given_as_an_argument_is_compared_anew() -> None:
    def chosen(x: torch.Tensor, kind: type) -> torch.Tensor:
        return x + 1 if kind is dict else x * 3

    compiled = graphwright.compile(chosen, backend="eager")
    x = torch.ones(2)
    for kind in (dict, list, dict, torch.nn.Linear):
        assert torch.equal(compiled(x, kind), chosen(x, kind))
