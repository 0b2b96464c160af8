"""Fake tensors: running operations on metadata alone, and noticing what they change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

import graphwright.graph_breaks as gb
from graphwright.graph.trial import trying_on_fakes
from graphwright.graph_breaks import GraphBreakKind
from graphwright.torch_compat import (
    DATA_DEPENDENT_ERRORS,
    UNSUPPORTED_FAKE_ERRORS,
    FakeTensorConverter,
    NotingFakeMode,
    SymbolicLayout,
    fake_of,
    new_fake_mode,
    storage_key,
    tensor_version,
)


class FakeFailure(Exception):
    """An operation cannot be done on fake tensors; `kind` and `detail` say why."""

    def __init__(self, kind: GraphBreakKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


class FakeValues:
    """The fake tensor mode of one capture; see `new_fake_mode` for the arguments."""

    def __init__(self, *, values: bool = False, sizes: bool = False) -> None:
        self.mode: NotingFakeMode = new_fake_mode(values=values, sizes=sizes)

    def of_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """The fake of a real tensor; views and aliases share storages."""
        return fake_of(self.mode, tensor)

    def fresh(self) -> Callable[[torch.Tensor, SymbolicLayout | None], torch.Tensor]:
        """A maker of fakes that remembers nothing of the fakes made so far; a layout gives the symbols of before."""
        converter = FakeTensorConverter()

        def make(tensor: torch.Tensor, layout: SymbolicLayout | None) -> torch.Tensor:
            if layout is not None:
                return layout.fake_of(self.mode, tensor, converter)
            return fake_of(self.mode, tensor, converter)

        return make

    def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], what: str) -> Any:
        """Run an operation on fake values.

        Raises:
            FakeFailure: it needs values, has no rule, or fails on these inputs.
        """
        try:
            with trying_on_fakes(self.mode):
                return function(*args, **kwargs)
        except DATA_DEPENDENT_ERRORS as error:
            raise FakeFailure(gb.DATA_DEPENDENT_VALUE, f"{what} needs the values of a tensor") from error
        except UNSUPPORTED_FAKE_ERRORS as error:
            raise FakeFailure(gb.UNSUPPORTED_TORCH, f"{what} cannot be run on fake tensors: {error}") from error
        except Exception as error:
            if "data is not allocated yet" in str(error):  # C++ code that reads values past the dispatcher
                raise FakeFailure(gb.DATA_DEPENDENT_VALUE, f"{what} needs the values of a tensor") from error
            raise FakeFailure(gb.TORCH_OP_FAILED, f"{what} raises {type(error).__name__}: {error}") from error


class TensorWatch:
    """The tensors among the arguments of an operation, as they were before it."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.tensors = tensors
        self._versions = [tensor_version(t) for t in tensors]

    def changed(self) -> list[torch.Tensor]:
        """The tensors that were written to since."""
        return [t for t, v in zip(self.tensors, self._versions, strict=True) if tensor_version(t) != v]


def partly_overlap(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two dense tensors share some of their memory, but are not the same view.

    Source: `at::get_overlap_status` in ATen/MemoryOverlap.cpp.
    """
    key = storage_key(first)
    if key is None or key != storage_key(second):
        return False
    if not (first.numel() and second.numel() and is_dense(first) and is_dense(second)):
        return False
    start, other = first.storage_offset(), second.storage_offset()
    if start == other and first.numel() == second.numel():
        return first.stride() != second.stride()
    return start < other + second.numel() and other < start + first.numel()


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether each place in the tensor's stretch of memory belongs to exactly one element."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def layout_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Sizes, strides, offset and storage: what only metadata operations change."""
    return (tensor.shape, tensor.stride(), tensor.storage_offset(), storage_key(tensor))


def fake_argument(value: Any) -> Any:
    """A graph argument with each node replaced by its fake value."""
    if isinstance(value, fx.Node):
        return value.meta["example_value"]
    kind = type(value)
    if kind is tuple or kind is list:
        return kind(fake_argument(v) for v in value)
    if kind is dict:
        return {k: fake_argument(v) for k, v in value.items()}
    if kind is slice:
        return slice(fake_argument(value.start), fake_argument(value.stop), fake_argument(value.step))
    return value
