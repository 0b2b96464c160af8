import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import fx

from graphwright_plugins import BackendContractError, Capabilities, close_backends, resolve_backend
from graphwright_plugins.loading.contract import why_not_backend
from graphwright_plugins.testing import Program, compile_program

PROGRAM = Program("p", lambda x: (x + 1,), lambda: (torch.randn(3),))


class Holding:
    """Holds memory for what it compiled."""

    capabilities = Capabilities()

    def __init__(self, name: str = "holding", error: Exception | None = None) -> None:
        self.name = name
        self.held = 0
        self.closed = 0
        self.error = error

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: Any) -> Any:
        self.held += 1
        return graph.forward

    def close(self) -> None:
        self.closed += 1
        if self.error is not None:
            raise self.error
        self.held = 0


@pytest.fixture(autouse=True)
def _none_used() -> Iterator[None]:
    close_backends()
    yield
    close_backends()


def use(backend: Holding) -> Any:
    return compile_program(resolve_backend(backend), PROGRAM, PROGRAM.inputs())


def test_what_compiled_is_closed_once_and_works_again() -> None:
    backend, idle = Holding(), Holding("idle")
    resolve_backend(idle)
    use(backend)
    use(backend)
    assert backend.held == 2
    close_backends()
    assert (backend.held, backend.closed, idle.closed) == (0, 1, 0)
    close_backends()
    assert backend.closed == 1
    inputs = PROGRAM.inputs()
    assert torch.equal(use(backend)(*inputs)[0], inputs[0] + 1)
    close_backends()
    assert backend.closed == 2


def test_one_that_fails_to_close_does_not_keep_the_others() -> None:
    backends = [Holding("a", OSError("the handle is gone")), Holding("b"), Holding("c", ValueError("no"))]
    for backend in backends:
        use(backend)
    with pytest.raises(
        BackendContractError, match=r"'a': OSError: the handle is gone; backend 'c': ValueError: no"
    ) as e:
        close_backends()
    assert isinstance(e.value.__cause__, OSError)
    assert [backend.closed for backend in backends] == [1, 1, 1]
    close_backends()


def test_backends_are_not_kept_alive() -> None:
    backend = Holding()
    gone = weakref.ref(backend)
    use(backend)
    del backend
    gc.collect()
    assert gone() is None
    close_backends()


def test_a_close_that_cannot_be_called_is_refused() -> None:
    backend = Holding()
    backend.close = 3  # type: ignore[assignment, method-assign]
    assert why_not_backend(backend) == "has an attribute 'close' that can't be called"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_leaves_its_parents_backends_alone() -> None:
    backend = Holding()
    use(backend)
    child = os.fork()
    if child == 0:
        try:
            close_backends()
            status = 0 if backend.closed == 0 else 1
        except BaseException:
            status = 2
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


AT_EXIT = """
import torch
from torch import fx
from graphwright_plugins import Capabilities, resolve_backend

class Backend:
    def __init__(self, name):
        self.name, self.capabilities = name, Capabilities()
    def compile(self, graph, example_inputs, options):
        return graph.forward
    def close(self):
        if self.name == "bad":
            raise ValueError("too late")
        print("closed", self.name, torch.ones(2).sum().item())

good, bad = Backend("good"), Backend("bad")
for backend in (bad, good):
    resolve_backend(backend).compile(fx.symbolic_trace(lambda x: (x + 1,)), [torch.ones(2)])
"""


def test_backends_are_closed_at_the_interpreters_exit() -> None:
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "closed good 2.0")
    assert "backend 'bad' could not be closed: ValueError: too late" in done.stderr
