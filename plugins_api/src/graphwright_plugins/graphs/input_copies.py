"""Copies of a graph's inputs to try it on, where an input that is a view of another stays one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from graphwright_plugins.torch_compat import FakeTensorMode

from .unused_results import fresh_inputs


def copies_of(example_inputs: Sequence[Any], fake_mode: FakeTensorMode) -> list[Any]:
    """Fakes like these inputs, which a trial may write to.

    Those that autograd knows as views of one tensor are views of one again, so that a write to one has the others
    require a gradient too. What shares memory otherwise is apart.
    """
    roots: dict[int, list[int]] = {}
    for place, value in enumerate(example_inputs):
        if isinstance(value, torch.Tensor):
            roots.setdefault(id(_root(value)), []).append(place)
    alone = [value if len(roots.get(id(_root(value)), ())) < 2 else None for value in example_inputs]
    copies = fresh_inputs(alone, fake_mode)
    for places in roots.values():
        if len(places) > 1:
            related = [example_inputs[place] for place in places]
            for place, copy in zip(places, _related(_root(related[0]), related, fake_mode), strict=True):
                copies[place] = copy
    return copies


def _root(value: Any) -> Any:
    base = value._base if isinstance(value, torch.Tensor) else None
    return value if base is None else base


def _related(root: torch.Tensor, values: Sequence[torch.Tensor], fake_mode: FakeTensorMode) -> list[torch.Tensor]:
    [base] = fresh_inputs([root], fake_mode)
    found = []
    with fake_mode, torch.enable_grad():
        for value in values:
            if value is root:
                found.append(base)
            else:
                offset = value.storage_offset() - root.storage_offset()
                found.append(base.as_strided(value.shape, value.stride(), offset))
    return found
