"""Forked children, and the end of the process."""

import os
import subprocess
import sys
import textwrap

import pytest

FORK = """
import os, signal, sys, threading, time
import torch, graphwright

def make(i):
    namespace = {"torch": torch}
    body = f"    y = x * 2\\n    if {i} % 3 == 0: torch._dynamo.graph_break()\\n    return y + 1\\n"
    exec("def f(x):\\n" + body, namespace)
    return namespace["f"]

x, captured, over = torch.ones(2), [0], []

def capture():
    while not over:
        graphwright.compile(make(captured[0]), backend="eager")(x)
        captured[0] += 1

threads = [threading.Thread(target=capture) for _ in range(2)]
for thread in threads:
    thread.start()
sys.setswitchinterval(1e-4)
faults = []
for i in range(FORKS):
    time.sleep(0.05 * (i % 7) / 7)
    child = os.fork()
    if not child:
        signal.alarm(30)
        compiled = graphwright.compile(make(i), backend="eager")
        good = all(torch.equal(compiled(x), x * 2 + 1) for _ in range(2))
        graphwright.reset()
        os._exit(0 if good and torch.equal(compiled(x), x * 2 + 1) else 3)
    status = os.waitpid(child, 0)[1]
    if status:
        faults.append((i, status))
over.append(True)
for thread in threads:
    thread.join()
assert captured[0] > 2
assert not faults, faults
"""

EXIT = """
import atexit
import torch, graphwright

def f(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2

compiled = graphwright.compile(f, backend="BACKEND")
compiled(torch.ones(2))
module = graphwright.compile(torch.nn.Linear(2, 2), backend="BACKEND")
module(torch.ones(1, 2))

class Late:
    def __init__(self):
        self.call = graphwright.compile(lambda x: x * 3, backend="BACKEND")
        self.me = self if CYCLE else None

    def __del__(self):
        assert self.call(torch.ones(2)) is not None

late = Late()
atexit.register(lambda: compiled(torch.ones(3)))
"""


def run(source):
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1", "GRAPHWRIGHT_RAISE_INTERNAL_ERRORS": "1"}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], env=environment, capture_output=True, text=True, timeout=600
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_child_forked_during_a_capture_goes_on():
    ended = run(FORK.replace("FORKS", "100"))
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("cycle", [False, True])
def test_the_interpreter_ends_quietly(backend, cycle):
    ended = run(EXIT.replace("BACKEND", backend).replace("CYCLE", str(cycle)))
    assert (ended.returncode, ended.stderr) == (0, "")
