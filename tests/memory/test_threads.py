"""Many threads, one compiled function; resets meanwhile."""

import random
import sys
import threading
import time

import pytest
import torch

import graphwright
from graphwright import config


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


# ------------------------------------------------------------------ under load


class Scale:
    def __init__(self, value):
        self.value = value


def scaled(x, scale, names):
    return x * scale.value + len(names)


def branching(x):
    return x + 1 if x.shape[0] < 6 else x - 1


def broken(x, k):
    y = x * 2
    graphwright.graph_break()
    return y + k


def trained(x):
    x = x.clone().requires_grad_()
    (x * x).sum().backward()
    return x.grad


def maker(k):
    def inner(x):
        return x * k

    return inner


def shared_programs():
    """Functions that all threads call, each with arguments for it."""
    programs = [
        (graphwright.compile(branching, backend="eager"), branching, lambda c: (tensor(c),)),
        (graphwright.compile(branching, backend="aot_eager", dynamic=True), branching, lambda c: (tensor(c),)),
        (graphwright.compile(broken, backend="eager"), broken, lambda c: (tensor(c), c.randrange(9))),
        (
            graphwright.compile(scaled, backend="eager"),
            scaled,
            lambda c: (tensor(c), Scale(c.random()), ["a"] * c.randrange(4)),
        ),
        (graphwright.compile(trained, backend="eager"), trained, lambda c: (tensor(c),)),
    ]
    return [
        *programs,
        *((graphwright.compile(maker(k), backend="eager"), maker(k), lambda c: (tensor(c),)) for k in (2, 3)),
    ]


def tensor(chance):
    return torch.full((chance.randrange(2, 9),), chance.random())


def run_load(seconds, threads=8):
    """Calls, captures, fresh functions, resets and reports at once; what was wrong, and a thread's fewest calls."""
    programs = shared_programs()
    end = time.monotonic() + seconds
    faults, calls = [], [0] * threads

    def call(number):
        chance = random.Random(number)
        try:
            while time.monotonic() < end:
                compiled, fn, arguments = chance.choice(programs)
                if chance.random() < 0.02:
                    fn = maker(chance.random())
                    compiled, arguments = graphwright.compile(fn, backend="eager"), lambda c: (tensor(c),)
                args = arguments(chance)
                with torch.set_grad_enabled(fn is trained or chance.random() < 0.8):
                    got, want = compiled(*args), fn(*args)
                if not torch.equal(got, want) or got.requires_grad != want.requires_grad:
                    faults.append(f"thread {number}: {fn.__name__}{args}: {got}, not {want}")
                calls[number] += 1
        except BaseException as error:
            faults.append(f"thread {number}: {error!r}")

    def disturb():
        chance = random.Random(0)
        while time.monotonic() < end:
            time.sleep(0.05)
            for _, fn, _ in programs:
                str(graphwright.explain_recompiles(fn))
            if chance.random() < 0.3:
                graphwright.reset()
            with config.patch(recompile_limit=chance.randrange(1, 9)):
                time.sleep(0.01)

    running = [threading.Thread(target=call, args=(number,)) for number in range(threads)]
    running.append(threading.Thread(target=disturb))
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(seconds + 60)
    stuck = [thread.name for thread in running if thread.is_alive()]
    return faults[:5] + stuck, min(calls)


@pytest.mark.usefixtures("_frequent_switches")
def test_load():
    faults, calls = run_load(3)
    assert faults == []
    assert calls > 0


@pytest.mark.slow
@pytest.mark.usefixtures("_frequent_switches")
def test_load_for_a_minute():
    faults, calls = run_load(60)
    assert faults == []
    assert calls > 0
