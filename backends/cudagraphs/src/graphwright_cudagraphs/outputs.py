"""What is handed out after a replay: the caller's own inputs, clones of what the recording made, or that itself.

A replay writes to the same memory each time. What the caller keeps must not change then, so it is cloned; what the
forward graph saves for the backward graph is lent, and the recording waits until it is given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from .strided import clone_together, marks, same_memory
from .torch_compat import storage_users


@dataclass(frozen=True)
class InputItself:
    """An input, as the same object."""

    index: int


@dataclass(frozen=True)
class ViewOfInput:
    """Another view of an input's memory."""

    index: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    """From where the input begins, in elements."""

    def make(self, arguments: Sequence[Any]) -> torch.Tensor:
        argument: torch.Tensor = arguments[self.index]
        return argument.as_strided(self.size, self.stride, argument.storage_offset() + self.offset)


@dataclass(frozen=True)
class Cloned:
    """A clone, by its place among the clones."""

    place: int


@dataclass(frozen=True)
class Lent:
    """The recording's own tensor."""

    tensor: torch.Tensor


@dataclass(frozen=True)
class Constant:
    """A number that is fixed by sizes and numbers of the recording, or None."""

    value: Any


Source: TypeAlias = InputItself | ViewOfInput | Cloned | Lent | Constant
"""How an output is made."""


class Lease:
    """Whether anybody still holds what was lent of some storage.

    Args:
        storage: The storage.
        own_tensors: How many tensors of it the recording keeps.
    """

    def __init__(self, storage: torch.UntypedStorage, own_tensors: int) -> None:
        self._storage = storage
        self._own_users = own_tensors + 1  # and this handle

    @property
    def is_out(self) -> bool:
        """Whether more tensors share the storage than the recording's own."""
        return storage_users(self._storage) > self._own_users

    @property
    def address(self) -> int:
        """Where the storage begins."""
        return self._storage.data_ptr()


@dataclass
class OutputPlan:
    """How each output of a recording is made for the caller."""

    sources: list[Source] = field(default_factory=list)
    groups: list[list[torch.Tensor]] = field(default_factory=list)
    """Tensors to clone, those of one storage together."""
    leases: list[Lease] = field(default_factory=list)
    """The storages of what is lent."""

    @property
    def is_out(self) -> bool:
        """Whether something lent is still in use."""
        return any(lease.is_out for lease in self.leases)

    def make(self, arguments: Sequence[Any]) -> list[Any]:
        """The outputs for a call with these arguments, after the replay."""
        clones = [clone for group in self.groups for clone in clone_together(group)]
        return [self._output(source, arguments, clones) for source in self.sources]

    def _output(self, source: Source, arguments: Sequence[Any], clones: Sequence[torch.Tensor]) -> Any:
        if isinstance(source, Cloned):
            return clones[source.place]
        if isinstance(source, Lent):
            return source.tensor.detach()  # another tensor of the storage, which counts as long as somebody has it
        if isinstance(source, InputItself):
            return arguments[source.index]
        if isinstance(source, ViewOfInput):
            return source.make(arguments)
        return source.value


def plan_outputs(outputs: Sequence[Any], inputs: Sequence[Any], lent: Collection[int]) -> OutputPlan:
    """Decide for each output how it is made.

    Args:
        outputs: What the recording wrote to.
        inputs: What the recording reads, in the place of the arguments.
        lent: The indices of the outputs that may be handed out as they are.
    """
    plan = OutputPlan()
    of_storage = {_storage(value): index for index, value in reversed([*enumerate(inputs)]) if _has_memory(value)}
    own: dict[int, torch.Tensor] = {}
    for index, output in enumerate(outputs):
        source = _given(output, inputs, of_storage)
        if source is None and index in lent and output.numel() and not marks(output):
            source = Lent(same_memory(output))
        if source is None:
            own[index] = output
        plan.sources.append(source or Constant(None))
    _plan_clones(plan, own)
    plan.leases = _leases(plan)
    return plan


def _leases(plan: OutputPlan) -> list[Lease]:
    """Counted, not measured: a tensor that happens to be alive now would make one too few count as lent later."""
    lent = {id(source.tensor): source.tensor for source in plan.sources if isinstance(source, Lent)}
    kept = lent | {id(tensor): tensor for group in plan.groups for tensor in group}
    users = Counter(map(_storage, kept.values()))
    storages = {_storage(tensor): tensor.untyped_storage() for tensor in lent.values()}
    return [Lease(storage, users[address]) for address, storage in storages.items()]


def _given(output: Any, inputs: Sequence[Any], of_storage: dict[int, int]) -> Source | None:
    """How an output comes from the arguments alone, or None."""
    if not isinstance(output, torch.Tensor):
        return Constant(output)
    for index, value in enumerate(inputs):
        if value is output:
            return InputItself(index)
    index = of_storage.get(_storage(output), -1)
    if index < 0 or inputs[index].dtype != output.dtype or marks(inputs[index]) or marks(output):
        return None
    offset = output.storage_offset() - inputs[index].storage_offset()
    return ViewOfInput(index, tuple(output.shape), output.stride(), offset)


def _plan_clones(plan: OutputPlan, own: dict[int, torch.Tensor]) -> None:
    places: dict[int, int] = {}  # by the identity of the tensor: what is one object comes out as one
    groups: dict[int, list[torch.Tensor]] = {}
    for output in own.values():
        shares = _has_memory(output) and not marks(output)
        group = groups.setdefault(_storage(output) if shares else -id(output), [])
        if all(output is not member for member in group):
            group.append(output)
    for place, tensor in enumerate(tensor for group in groups.values() for tensor in group):
        places[id(tensor)] = place
    plan.groups = [[tensor if marks(tensor) else same_memory(tensor) for tensor in group] for group in groups.values()]
    for index, output in own.items():
        plan.sources[index] = Cloned(places[id(output)])


def _has_memory(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() != 0


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
