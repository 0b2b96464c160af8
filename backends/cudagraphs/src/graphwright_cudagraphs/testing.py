"""A recorder that needs no GPU, and does to memory what CUDA graphs do: what a replay overwrites is overwritten.

    backend = CudaGraphsBackend(SimulatedRecorder, device_type="cpu")

It raises where a real recording would read memory that is gone, run out of order, or be made without a warm-up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import torch

from .recorder import Run, Tape
from .strided import copy_into, has_own_places
from .torch_compat import neg_view, weak_storage

_Read: TypeAlias = Callable[[], Any]
_GONE: Final = object()


@dataclass(eq=False)
class _Recorded:
    """What a replay computes anew."""

    run: Run
    inputs: list[_Read]
    outputs: list[_Read | None]
    """Where to write each output, if somebody still can read it; None for what is an input's memory, or no tensor."""


@dataclass
class SimulatedRecorder:
    """Records a run by remembering it; a replay runs it and writes the results to the memory of the first ones.

    Args:
        device: Where the tensors live.
    """

    device: torch.device
    log: list[str] = field(default_factory=list)
    """What was asked for, in order: `warm_up`, `record`, `enter`, `copy_in`, `replay`, `leave`, `free`."""
    tapes: int = 0
    """How many recordings there are."""
    _is_warm: bool = False
    _depth: int = 0

    def warm_up(self, run: Run, inputs: list[Any]) -> Sequence[Any]:
        """Run."""
        self.log.append("warm_up")
        outputs = run(inputs)
        self._is_warm = True
        return outputs

    def record(self, run: Run, inputs: list[Any], borrowed: frozenset[int]) -> tuple[Tape, list[Any]]:
        """Run to make the outputs, then take back everything else: inputs, random state, the outputs' values."""
        if not self._is_warm:
            raise RuntimeError("a run is recorded without a warm-up before it")
        self.log.append("record")
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        before = [value.clone() for value in tensors]
        state = torch.get_rng_state()
        outputs = list(run(list(inputs)))
        torch.set_rng_state(state)
        for value, old in zip(tensors, before, strict=True):
            if has_own_places(value) and not torch.equal(value, old):
                value.copy_(old)
        reads = [_reader(value) if index in borrowed else _keeper(value) for index, value in enumerate(inputs)]
        writes = [_reader(value) if _is_own(value, tensors) else None for value in outputs]
        for value in outputs:
            if _is_own(value, tensors):
                _spoil(value)
        self.tapes += 1
        return Tape(_Recorded(run, reads, writes)), outputs

    @contextlib.contextmanager
    def in_order(self) -> Iterator[None]:
        """Note the beginning and the end of a block."""
        self.log.append("enter")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self.log.append("leave")

    def copy_in(self, buffer: torch.Tensor, value: torch.Tensor) -> None:
        """Copy."""
        self._check_order("copy_in")
        copy_into(buffer, value)

    def replay(self, tape: Tape) -> None:
        """Run again, on what lies where the inputs lay, and write to where the outputs lie."""
        self._check_order("replay")
        recorded: _Recorded | None = tape.recorded
        if recorded is None:
            raise RuntimeError("a recording is replayed that was freed")
        inputs = [read() for read in recorded.inputs]
        if any(value is _GONE for value in inputs):
            raise RuntimeError("a recording reads an input of the user's that is gone")
        fresh = recorded.run(inputs)
        for output, new in zip(recorded.outputs, fresh, strict=True):
            place = None if output is None else output()
            if isinstance(place, torch.Tensor):
                copy_into(place, new)

    def free(self, tape: Tape) -> None:
        """Forget a recording."""
        if tape.recorded is None:
            raise RuntimeError("a recording is freed twice")
        self.log.append("free")
        tape.recorded = None
        self.tapes -= 1

    def _check_order(self, what: str) -> None:
        self.log.append(what)
        if self._depth != 1:
            raise RuntimeError(f"{what} outside of a block of in_order, or in two of them")


def _is_own(output: Any, inputs: Sequence[torch.Tensor]) -> bool:
    """Whether an output is in memory of the recording's own."""
    of_inputs = {value.untyped_storage().data_ptr() for value in inputs}
    return isinstance(output, torch.Tensor) and output.untyped_storage().data_ptr() not in of_inputs


def _spoil(tensor: torch.Tensor) -> None:
    """Nothing is computed while a CUDA graph is recorded: give an output values that are surely wrong."""
    storage = tensor.untyped_storage()
    torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,)).fill_(0x7B)


def _keeper(value: Any) -> _Read:
    return lambda: value


def _reader(value: Any) -> _Read:
    """Reads a tensor where it lies without keeping it alive, as an address does; gives `_GONE` once nobody has it."""
    if not isinstance(value, torch.Tensor):
        return _keeper(value)
    storage_of, is_conj, is_neg = weak_storage(value), value.is_conj(), value.is_neg()
    size, stride, offset, dtype = value.size(), value.stride(), value.storage_offset(), value.dtype

    def read() -> Any:
        storage = storage_of()
        if storage is None:
            return _GONE
        tensor = torch.empty(0, dtype=dtype).set_(storage, offset, size, stride)
        tensor = tensor.conj() if is_conj else tensor
        return neg_view(tensor) if is_neg else tensor

    return read
