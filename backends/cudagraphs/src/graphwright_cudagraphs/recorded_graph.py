"""One graph of operators that is recorded and replayed, or runs operator by operator where that is not right."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins import GraphKind

from .inputs import Handling, Key, plan_inputs, storage_address
from .memory import Memory
from .options import CudaGraphsOptions
from .outputs import InputItself, Lent, Source, ViewOfInput, plan_outputs
from .recorder import Run
from .recordings import Recording, Recordings, Step
from .refusals import Graph
from .strided import buffer_like, copy_into

_MOVES_BEFORE_COPYING: Final = 2
"""How often a tensor of a fixed address may turn out to have moved before it is copied like any other."""
_FULL: Final = (
    "runs in eager for new sizes or numbers: it has {} recordings, the most that max_recordings allows. "
    "Raise max_recordings, give fewer sizes (by padding, say), or set when_full='replace'."
)
_SAVED_IN_USE: Final = (
    "ran in eager, because values that an earlier call saved for its backward are still in use. That is so where calls "
    "come before the backward of an earlier one, or a loss is kept: run backward() first, drop the loss, or call under "
    "torch.no_grad() what needs no gradients."
)
_RESULTS_IN_USE: Final = (
    "ran in eager, because results of an earlier call are still in use, and clone_outputs=False hands them out where "
    "the next call writes. Drop them before the next call, or leave out the option."
)


class RecordedGraph:
    """Runs a forward, backward or inference graph. Called with a list of inputs, which it empties.

    Args:
        graph: The graph as the rules see it; none of them speaks against recording it.
        run: Runs it operator by operator.
        memory: What it shares with the other graph of its compilation.
        options: The backend's options.
    """

    def __init__(self, graph: Graph, run: Run, memory: Memory, options: CudaGraphsOptions) -> None:
        signature = graph.signature
        self.part = f"{signature.kind} graph"
        self.recordings = Recordings(options)
        self._signature = signature
        self._run = run
        self._memory = memory
        self._device = graph.devices[0]
        used = [_is_read(node) for node in graph.nodes if node.op == "placeholder"]
        self._first_plan = plan_inputs(signature, used, graph.device_type)
        self._saved: Mapping[int, Handling] = {}
        self._plan = self._first_plan
        self._moves: Counter[int] = Counter()
        self._failed = False
        self._saves = frozenset(index for index, output in enumerate(signature.outputs) if output.saved)
        # Gradients are always cloned: autograd keeps them in `grad`, from where they might never be given back.
        lends_all = not options.clone_outputs and signature.kind is not GraphKind.BACKWARD
        self._lends = frozenset(range(len(signature.outputs))) if lends_all else self._saves
        memory.when_lenders_go(self._drop_readers)
        memory.saves = memory.saves or bool(self._saves)

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        """Run the graph."""
        with self._memory.lock, torch.no_grad():
            outputs = self._from_recording(inputs)
            if outputs is None and self._plan.lent:
                with self._reading_lent():
                    return self._run(inputs)
        if outputs is None:
            return self._run(inputs)
        inputs.clear()
        return outputs

    def close(self) -> None:
        """Free all recordings."""
        self._free(self.recordings.take_out(lambda recording: True))

    def _from_recording(self, inputs: list[Any]) -> Sequence[Any] | None:
        """The outputs, by a replay or a warm-up; None where the graph is to run as it is."""
        if self._memory.is_closed:
            self._tell("closed", "runs in eager, because its recordings were freed by close().")
            return None
        self._follow_forward()
        if self._failed or not self._are_lent(inputs):  # the latter: the forward graph ran in eager, and told why
            return None
        key = self._plan.key(inputs)
        recording = self.recordings.find(key)
        if recording is not None and not self._stayed(recording, inputs):
            self._free(self.recordings.take_out(lambda other: other is recording))
            return self._from_recording(inputs)
        if recording is not None:
            return self._replay(recording, inputs)
        sizes = self._plan.sizes(inputs)
        step = self.recordings.next_step(sizes)
        if step is Step.WARM_UP:
            return self._warm_up(sizes, inputs)
        if step is Step.RECORD:
            return None if self._waits_for_forward else self._record_and_replay(key, inputs)
        self._tell("max_recordings", _FULL.format(len(self.recordings)))
        return None

    def _follow_forward(self) -> None:
        if self._saved is not self._memory.saved:
            self._saved = self._memory.saved
            self._plan = self._first_plan.with_saved(self._signature, self._saved).with_copies_of(self._moving)

    def _are_lent(self, inputs: Sequence[Any]) -> bool:
        """Whether everything that the forward graph lends lies in a recording that is still kept."""
        return all(self._memory.is_lent(storage_address(inputs[index])) for index in self._plan.lent)

    @property
    def _waits_for_forward(self) -> bool:
        """Whether the forward graph is not recorded so far: what it saves would have to be copied."""
        return self._signature.kind is GraphKind.BACKWARD and self._memory.saves and not self._memory.saved

    # ------------------------------------------------------------------ static inputs

    def _stayed(self, recording: Recording, inputs: Sequence[Any]) -> bool:
        """Whether static inputs lie where they lay; those that move again and again are copied from now on."""
        moved = [index for index, address in recording.addresses if inputs[index].data_ptr() != address]
        if not moved:
            return True
        self._moves.update(moved)
        self._plan = self._plan.with_copies_of(self._moving)
        written = [index for index in self._moving if self._signature.inputs[index].mutated]
        if written:
            self._failed = True
            names = ", ".join(map(self._name, written))
            self._tell("moving", f"runs in eager, because it writes to {names}, which keeps moving in memory.")
        return False

    @property
    def _moving(self) -> frozenset[int]:
        """The inputs that moved too often to count as static."""
        return frozenset(index for index, moves in self._moves.items() if moves >= _MOVES_BEFORE_COPYING)

    def _name(self, index: int) -> str:
        entry = self._signature.inputs[index]
        return entry.source or entry.name

    # ------------------------------------------------------------------ recording and replaying

    def _warm_up(self, sizes: Key, inputs: list[Any]) -> Sequence[Any]:
        with self._reading_lent():
            outputs = self._memory.recorder(self._device).warm_up(self._run, inputs)
        self.recordings.count_warm_up(sizes)
        return outputs

    def _reading_lent(self) -> AbstractContextManager[None]:
        """Run operators that may read what the forward graph lent: its next replay comes after them."""
        if self._plan.lent:
            return self._memory.recorder(self._device).in_order()
        return contextlib.nullcontext()

    def _record_and_replay(self, key: Key, inputs: Sequence[Any]) -> Sequence[Any] | None:
        self._free(self.recordings.make_room())
        try:
            # Memory made in inference mode could not be written to outside of it.
            with torch.inference_mode(False), torch.no_grad():
                recording = self._record(inputs)
        except Exception as error:  # noqa: BLE001  # whatever CUDA or an operator objects to: this graph is not recorded
            self._failed = True
            lines = str(error).splitlines() or [""]
            self._tell("failed", f"runs in eager, because recording it failed: {type(error).__name__}: {lines[0]}")
            return None
        self.recordings.add(key, recording)
        return self._replay(recording, inputs)

    def _record(self, inputs: Sequence[Any]) -> Recording:
        reads = list(inputs)
        buffers = []
        for index in self._plan.copied:
            reads[index] = buffer_like(inputs[index])
            copy_into(reads[index], inputs[index])  # no operator meets values that no caller gave
            buffers.append((index, reads[index]))
        for index in (*self._plan.static, *self._plan.lent):
            reads[index] = inputs[index].detach()
        tensors = {index for index, value in enumerate(reads) if isinstance(value, torch.Tensor)}
        borrowed = frozenset(tensors - {*self._plan.copied})
        tape, outputs = self._memory.recorder(self._device).record(self._run, list(reads), borrowed)
        recording = Recording(
            tape=tape,
            buffers=buffers,
            addresses=[(index, reads[index].data_ptr()) for index in self._plan.static],
            outputs=plan_outputs(outputs, reads, self._lends),
            reads=frozenset(storage_address(reads[index]) for index in self._plan.lent),
        )
        self._lend(recording)
        return recording

    def _lend(self, recording: Recording) -> None:
        """Say to the backward graph what becomes of what this graph saves for it."""
        if self._saves:
            self._memory.lend(recording)
            saved = {index: self._saved_as(recording.outputs.sources[index]) for index in self._saves}
            if saved != self._memory.saved:
                self._memory.saved = saved

    def _saved_as(self, source: Source) -> Handling:
        if isinstance(source, Lent):
            return Handling.LENT
        if isinstance(source, (InputItself, ViewOfInput)) and self._signature.inputs[source.index].static_address:
            return Handling.STATIC
        return Handling.COPIED

    def _replay(self, recording: Recording, inputs: Sequence[Any]) -> Sequence[Any] | None:
        if recording.outputs.is_out:
            self._tell("outstanding", _SAVED_IN_USE if self._saves else _RESULTS_IN_USE)
            return None
        with self._memory.recorder(self._device).in_order():
            for index, buffer in recording.buffers:
                self._memory.recorder(self._device).copy_in(buffer, inputs[index])
            self._memory.recorder(self._device).replay(recording.tape)
            return recording.outputs.make(inputs)

    # ------------------------------------------------------------------ freeing

    def _free(self, recordings: Sequence[Recording]) -> None:
        for recording in recordings:
            self._memory.free(recording)

    def _drop_readers(self, addresses: frozenset[int]) -> None:
        self._free(self.recordings.take_out(lambda recording: not recording.reads.isdisjoint(addresses)))

    # ------------------------------------------------------------------ reasons

    def _tell(self, kind: str, text: str) -> None:
        self._memory.notices.tell(self.part, kind, text)


def _is_read(placeholder: fx.Node) -> bool:
    """Whether the graph does more with an input than to hand it on."""
    return any(user.op != "output" for user in placeholder.users)
