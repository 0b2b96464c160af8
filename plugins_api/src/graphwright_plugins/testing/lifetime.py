"""What is kept and for how long; threads, child processes, and the interpreter's end."""

import contextlib
import functools
import gc
import json
import os
import sys
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
import torch
from torch import fx

from graphwright_plugins.compiling.closing import close_backends
from graphwright_plugins.protocol import CompiledGraph, HasClose
from graphwright_plugins.resolve import ResolvedBackend

from .base import ConformanceTests, call
from .comparison import assert_same_values
from .fresh_process import fresh_process, process_facts
from .program import Program, compile_program
from .themes import Theme

PROGRAM = Program("product", lambda x, y: (x * y, x + y), lambda: (torch.randn(3), torch.randn(3)))
THREADS: Final = 4


class LifeTests(ConformanceTests):
    """Compiled graphs hold nothing of the caller's, nothing holds them, and threads and processes may share them."""

    theme = Theme.LIFETIME

    def test_inputs_released(self, resolved: ResolvedBackend) -> None:
        """After a call the compiled graph keeps neither inputs nor outputs alive."""
        inputs = PROGRAM.inputs(self.device)
        compiled = compile_program(resolved, PROGRAM, inputs)
        references = [weakref.ref(value) for value in (*inputs, *call(compiled, inputs))]
        inputs.clear()
        gc.collect()
        alive = [index for index, reference in enumerate(references) if reference() is not None]
        assert not alive, f"the compiled graph keeps inputs or outputs {alive} (inputs first) alive"

    def test_weights_released(self, resolved: ResolvedBackend) -> None:
        """Nor does it keep the inputs that it was compiled for, parameters among them, when others are given later."""
        program = Program(
            "weight", lambda x, w: (x @ w,), lambda: (torch.randn(2, 3), torch.nn.Parameter(torch.randn(3)))
        )
        inputs = program.inputs(self.device)
        compiled = compile_program(resolved, program, inputs)
        references = [weakref.ref(value) for value in inputs]
        with torch.no_grad():
            call(compiled, inputs)
            inputs = program.inputs(self.device, seed=1)
            call(compiled, inputs)
        gc.collect()
        alive = [index for index, reference in enumerate(references) if reference() is not None]
        assert not alive, f"something keeps the first call's inputs {alive} alive"

    def test_compiled_graph_released(self, resolved: ResolvedBackend) -> None:
        """A compiled graph that nobody holds is freed."""
        compiled = compile_program(resolved, PROGRAM, PROGRAM.inputs(self.device))
        holder = getattr(compiled, "__self__", compiled)
        reference = weakref.ref(holder)
        del compiled, holder
        gc.collect()
        assert reference() is None, "something still holds the compiled graph"

    def test_calls_do_not_grow(self, resolved: ResolvedBackend) -> None:
        """Many calls leave no tensors behind."""
        inputs = PROGRAM.inputs(self.device)
        compiled = compile_program(resolved, PROGRAM, inputs)
        self._check_growth(lambda: call(compiled, inputs), repeats=20)

    def test_compilations_do_not_grow(self, resolved: ResolvedBackend) -> None:
        """Many compilations leave no graphs and no tensors behind."""
        inputs = PROGRAM.inputs(self.device)
        self._check_growth(lambda: call(compile_program(resolved, PROGRAM, inputs), inputs), repeats=4)

    def test_close(self, resolved: ResolvedBackend) -> None:
        """After `close()` compiling works again; what was compiled before works, or raises RuntimeError."""
        if not isinstance(resolved.backend, HasClose):
            self.not_declared(f"backend {resolved.name!r} holds nothing to give back: it has no close()")
        inputs = PROGRAM.inputs(self.device)
        compiled = compile_program(resolved, PROGRAM, inputs)
        for _ in range(2):
            close_backends()
            resolved.backend.close()
            with contextlib.suppress(RuntimeError):
                actual = call(compiled, inputs)
                assert_same_values(PROGRAM.function(*inputs), actual, resolved.capabilities, "output")
            self.check(resolved, PROGRAM)

    def test_threads_call_at_once(self, resolved: ResolvedBackend) -> None:
        """Threads call one compiled graph at the same time, each with inputs of its own."""
        compiled = compile_program(resolved, PROGRAM, PROGRAM.inputs(self.device))
        inputs = [PROGRAM.inputs(self.device, seed) for seed in range(THREADS)]  # the seed is the whole process's

        def run(own: Sequence[Any]) -> None:
            expected = PROGRAM.function(*own)
            for _ in range(20):
                assert_same_values(expected, call(compiled, own), resolved.capabilities, "output")

        _at_once([functools.partial(run, own) for own in inputs])

    def test_compiled_in_another_thread(self, resolved: ResolvedBackend) -> None:
        """A graph compiled in a thread that is gone is called in this one."""
        with ThreadPoolExecutor(1) as pool:
            compiled: CompiledGraph = pool.submit(
                compile_program, resolved, PROGRAM, PROGRAM.inputs(self.device)
            ).result()
        for seed in range(2):
            self.check_call(resolved, compiled, PROGRAM, PROGRAM.inputs(self.device, seed), seed)

    def test_called_while_another_compiles(self, resolved: ResolvedBackend) -> None:
        """A thread calls while another compiles: the state of compiling is no business of the caller's."""
        compiled = compile_program(resolved, PROGRAM, PROGRAM.inputs(self.device))
        ours, others = PROGRAM.inputs(self.device, 1), PROGRAM.inputs(self.device, 2)
        expected = PROGRAM.function(*ours)
        done = threading.Event()

        def compile_some() -> None:
            try:
                for _ in range(3):
                    call(compile_program(resolved, PROGRAM, others), others)
            finally:
                done.set()

        def call_some() -> None:
            while not done.is_set():
                assert_same_values(expected, call(compiled, ours), resolved.capabilities, "output")

        _at_once([compile_some, call_some])

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this platform")
    def test_fork(self, resolved: ResolvedBackend) -> None:
        """A forked child calls what its parent compiled, and compiles; the parent goes on as before."""
        if self.device != "cpu":
            pytest.skip("a device that was opened before a fork can't be used after it")
        inputs = PROGRAM.inputs()
        compiled = compile_program(resolved, PROGRAM, inputs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks where there are threads
            child = os.fork()
        if child == 0:
            os._exit(_in_child(resolved, compiled, inputs))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 0, f"the child ended with status {status}: 1 is a wrong result, 2 an exception, < 0 a signal"
        self.check_call(resolved, compiled, PROGRAM, PROGRAM.inputs(), seed=0)

    def test_interpreter_exit(self, resolved: ResolvedBackend) -> None:
        """A fresh process compiles, calls, and ends in peace while the compiled graph is still there."""
        if resolved.distribution is None:
            pytest.skip(f"backend {resolved.name!r} was handed over as an object: another process can't find it")
        done = fresh_process(resolved.name, json.dumps(dict(self.options or {})), self.device)
        assert done.returncode == 0, f"the process ended with status {done.returncode}: {done.stderr}"
        assert "Exception ignored" not in done.stderr, done.stderr
        assert process_facts(done)["right"], "the compiled graph gives something else than eager"

    def _check_growth(self, work: Callable[[], object], repeats: int) -> None:
        for _ in range(2):  # caches fill
            work()
        gc.collect()
        before = _living()
        gc.freeze()  # what there is already is not looked through again
        try:
            for _ in range(repeats):
                work()
            gc.collect()
            left = _living()
        finally:
            gc.unfreeze()
        if _alive(left).total() >= repeats:
            gc.collect()  # they may be garbage together with what was frozen
        # A cache may hold the latest few: what it dropped for them makes up for it.
        grown = _alive(left) - Counter(kind for kind, reference in before if reference() is None)
        assert grown.total() < repeats, f"after {repeats} times there are more of these alive: {dict(grown)}"


def _living() -> list[tuple[str, weakref.ref[Any]]]:
    """The tensors and graphs that aren't frozen: the names of their types, and weak references to them."""
    # By type, and not by isinstance: that would ask proxies of other libraries for their class.
    kinds = (torch.Tensor, fx.GraphModule)
    found = [value for value in gc.get_objects() if issubclass(type(value), kinds)]
    return [(_kind(value), weakref.ref(value)) for value in found]


def _kind(value: object) -> str:
    # Each graph has a class of its own.
    return "graph" if isinstance(value, fx.GraphModule) else type(value).__name__


def _alive(references: Sequence[tuple[str, weakref.ref[Any]]]) -> Counter[str]:
    return Counter(kind for kind, reference in references if reference() is not None)


def _in_child(resolved: ResolvedBackend, compiled: CompiledGraph, inputs: Sequence[Any]) -> int:
    """What a forked child does, and the status that it ends with."""
    expected = PROGRAM.function(*inputs)
    try:
        for function in (compiled, compile_program(resolved, PROGRAM, inputs)):
            assert_same_values(expected, call(function, inputs), resolved.capabilities, "output")
    except AssertionError:
        return 1
    except BaseException as error:  # noqa: BLE001  a child must not go on to run the other tests
        print(f"in the forked child: {error!r}", file=sys.stderr, flush=True)
        return 2
    return 0


def _at_once(jobs: Sequence[Callable[[], None]]) -> None:
    """Run each job in a thread, from one moment on, and raise what one raised."""
    start = threading.Barrier(len(jobs))

    def run(job: Callable[[], None]) -> None:
        start.wait()
        job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        for done in [pool.submit(run, job) for job in jobs]:
            done.result()
