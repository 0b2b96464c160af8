"""Recording by CUDA graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .recorder import Run, Tape
from .strided import copy_into


class CudaRecorder:
    """Records into CUDA graphs of one private memory pool.

    Args:
        device: The CUDA device of everything that is recorded.
        cuda: `torch.cuda`, or what stands in for it.
    """

    def __init__(self, device: torch.device, cuda: Any = torch.cuda) -> None:
        self._device = device
        self._cuda = cuda
        # Libraries keep a workspace for each stream: after a warm-up on this one it lies outside the pool.
        self._stream = cuda.Stream(device)
        self._pool: Any = None
        self._tapes = 0
        self._done: Any = None  # event after the last block of `in_order`
        self._done_on: Any = None  # the stream it was recorded on

    def warm_up(self, run: Run, inputs: list[Any]) -> Sequence[Any]:
        """Run on the stream that recordings are made on."""
        current = self._cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with self._cuda.stream(self._stream):
            outputs = run(inputs)
        current.wait_stream(self._stream)
        for output in outputs:
            if isinstance(output, torch.Tensor):
                output.record_stream(current)
        return outputs

    def record(self, run: Run, inputs: list[Any], borrowed: frozenset[int]) -> tuple[Tape, list[Any]]:
        """Capture a run."""
        if self._pool is None:
            self._pool = self._cuda.graph_pool_handle()
        graph = self._cuda.CUDAGraph()
        with (
            self._cuda.device(self._device),
            # Other threads may allocate memory meanwhile: what they do is no part of the recording.
            self._cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"),
        ):
            outputs = list(run(list(inputs)))
        self._tapes += 1
        return Tape(graph), outputs

    @contextlib.contextmanager
    def in_order(self) -> Iterator[None]:
        """Have the current stream wait for the one that used the pool last, if that is another."""
        current = self._cuda.current_stream(self._device)
        if self._done is not None and self._done_on != current:
            current.wait_event(self._done)
        try:
            yield
        finally:
            if self._done is None:
                self._done = self._cuda.Event()
            self._done.record(current)
            self._done_on = current

    def copy_in(self, buffer: torch.Tensor, value: torch.Tensor) -> None:
        """Copy on the current stream."""
        copy_into(buffer, value)

    def replay(self, tape: Tape) -> None:
        """Launch the CUDA graph on the current stream."""
        tape.recorded.replay()

    def free(self, tape: Tape) -> None:
        """Wait for what still runs, then destroy the CUDA graph."""
        if tape.recorded is None:
            return
        self._cuda.synchronize(self._device)
        tape.recorded.reset()
        tape.recorded = None
        self._tapes -= 1
        if self._tapes == 0:
            self._pool = None  # torch gives up a pool with its last graph, and takes none of its name again
