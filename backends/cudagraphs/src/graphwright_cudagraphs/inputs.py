"""What becomes of each input of a recording: left where it lies, copied, or part of what the recording is for."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import torch

from graphwright_plugins import GraphSignature, InputSignature, SymbolicNumber

from .strided import marks

Key: TypeAlias = tuple[Any, ...]
"""Sizes, strides, numbers and addresses that a recording is for."""


class Handling(enum.Enum):
    """What becomes of an input."""

    STATIC = enum.auto()
    """A tensor of the user's at the same address in each call: read and written there."""
    LENT = enum.auto()
    """A value that the recording of the forward graph left where it made it: read there."""
    COPIED = enum.auto()
    """A tensor anywhere: copied before each replay."""
    HOST_NUMBER = enum.auto()
    """A single number on the host, which a recording keeps as it was: each value has a recording."""
    NUMBER = enum.auto()
    """A number: each value has a recording."""
    UNUSED = enum.auto()
    """Not looked at."""


class InputPlan:
    """What becomes of each input.

    Args:
        handlings: One for each input.
        varying: Inputs whose sizes or strides may be others in another call.
    """

    def __init__(self, handlings: Sequence[Handling], varying: frozenset[int] = frozenset()) -> None:
        self.handlings: Final = tuple(handlings)
        self.varying: Final = varying
        self.static: Final = self._of(Handling.STATIC)
        self.lent: Final = self._of(Handling.LENT)
        self.copied: Final = self._of(Handling.COPIED)
        self._numbers: Final = self._of(Handling.NUMBER)
        self._host_numbers: Final = self._of(Handling.HOST_NUMBER)
        # What is copied is looked at in any case: a copy of the wrong size might be a silent broadcast.
        self._sized: Final = tuple(sorted({*self.copied, *(index for index in self.static if index in varying)}))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputPlan) and (self.handlings, self.varying) == (other.handlings, other.varying)

    __hash__ = None  # type: ignore[assignment]  # compared in tests, and no key of anything

    def key(self, arguments: Sequence[Any]) -> Key:
        """What a recording for these arguments is for. Static inputs are not in it, and lent ones by their address."""
        return (
            *[_size(arguments[index]) for index in self._sized],
            *[_number(arguments[index]) for index in self._numbers],
            *[_number(arguments[index].item()) for index in self._host_numbers],
            *[arguments[index].data_ptr() for index in self.lent],
        )

    def sizes(self, arguments: Sequence[Any]) -> Key:
        """All sizes and numbers of a call, wherever its tensors lie."""
        return tuple(
            _size(argument) if isinstance(argument, torch.Tensor) else _number(argument)
            for handling, argument in zip(self.handlings, arguments, strict=True)
            if handling is not Handling.UNUSED
        )

    def with_saved(self, signature: GraphSignature, saved: Mapping[int, Handling]) -> InputPlan:
        """A backward graph's plan, by what became of the forward graph's outputs that it is given."""
        handlings = []
        for handling, entry in zip(self.handlings, signature.inputs, strict=True):
            known = None if entry.saved_output is None else saved.get(entry.saved_output)
            handlings.append(known if handling is Handling.COPIED and known is not None else handling)
        return InputPlan(handlings, self.varying)

    def with_copies_of(self, moving: frozenset[int]) -> InputPlan:
        """The plan with these of the static inputs copied."""
        return InputPlan(
            [
                Handling.COPIED if handling is Handling.STATIC and index in moving else handling
                for index, handling in enumerate(self.handlings)
            ],
            self.varying,
        )

    def _of(self, wanted: Handling) -> tuple[int, ...]:
        return tuple(index for index, handling in enumerate(self.handlings) if handling is wanted)


def plan_inputs(signature: GraphSignature, used: Sequence[bool], device_type: str) -> InputPlan:
    """What becomes of each input, by what is known when the graph is compiled.

    Args:
        signature: The graph's signature.
        used: For each input, whether the graph reads it.
        device_type: The type of the devices that are recorded on.
    """
    handlings = [
        _handling(entry, device_type) if is_used else Handling.UNUSED
        for entry, is_used in zip(signature.inputs, used, strict=True)
    ]
    return InputPlan(handlings, frozenset(i for i, entry in enumerate(signature.inputs) if _has_varying_sizes(entry)))


def storage_address(tensor: torch.Tensor) -> int:
    """Where a tensor's memory begins; 0 for one without memory."""
    return tensor.untyped_storage().data_ptr()


def _handling(entry: InputSignature, device_type: str) -> Handling:
    if entry.tensor is None:
        return Handling.NUMBER
    if entry.tensor.device.type != device_type:
        return Handling.HOST_NUMBER  # anything else on another device was refused
    return Handling.STATIC if entry.static_address else Handling.COPIED


def _has_varying_sizes(entry: InputSignature) -> bool:
    spec = entry.tensor
    return spec is not None and any(isinstance(number, SymbolicNumber) for number in (*spec.shape, *spec.stride))


def _size(tensor: torch.Tensor) -> Key:
    return tensor.shape, tensor.stride(), marks(tensor)


def _number(value: Any) -> Any:
    # Not by ==: 0.0 and -0.0, True and 1 are different arguments; nan is the same argument as nan.
    return value if type(value) is int else repr(value)
