"""Many threads, one compiled function; resets meanwhile."""

import random
import sys
import threading
import time

import pytest
import torch

import graphwright


def mixed(x, k):
    y = x * k
    if k == 3:
        torch._dynamo.graph_break()
    return y + 1


@pytest.fixture
def _frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def run_threads(seconds, *others):
    """Call compiled functions in eight threads; what was wrong."""
    function = graphwright.compile(mixed, backend="eager")
    module = torch.nn.Linear(3, 3)
    compiled_module = graphwright.compile(module, backend="eager")
    end = time.monotonic() + seconds
    faults = []

    def call(number):
        chance = random.Random(number)
        try:
            while time.monotonic() < end:
                k, x = chance.randrange(6), torch.full((chance.choice([2, 3]),), float(number))
                if not torch.equal(function(x, k), x * k + 1):
                    faults.append(f"mixed {number} {k}")
                row = torch.full((1, 3), float(number))
                if not torch.equal(compiled_module(row), module(row)):
                    faults.append(f"module {number}")
        except BaseException as error:
            faults.append(repr(error))

    def act(other):
        while time.monotonic() < end:
            other()
            time.sleep(0.002)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    threads += [threading.Thread(target=act, args=(other,)) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return faults


@pytest.mark.usefixtures("_frequent_switches")
def test_threads_call_one_function():
    assert run_threads(1) == []


@pytest.mark.usefixtures("_frequent_switches")
def test_threads_call_while_another_resets():
    assert run_threads(1, graphwright.reset) == []


@pytest.mark.slow
@pytest.mark.usefixtures("_frequent_switches")
def test_threads_for_a_minute():
    assert run_threads(60) == []
    assert run_threads(60, graphwright.reset) == []
