"""Cached calls, and calls past the limits, leave nothing behind."""

import gc

import pytest
import torch
from gwmemory import growth

import graphwright
from graphwright.config import patch

pytestmark = pytest.mark.timeout(3000)


def add_one(x):
    return x + 1


def with_keywords(x, *rest, a=1, **named):
    return x * a + named["b"]


def breaks(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def with_effects(x):
    STATE["last"] = x
    STATE["all"].clear()
    STATE["all"].append(x)
    return [x, {"sum": x + 1}]


class Scaled:
    def __init__(self):
        self.scale = torch.ones(2)
        self.last = None

    def apply(self, x):
        self.last = x
        return x * self.scale


STATE = {"all": []}
VECTOR, ROW = torch.ones(2), torch.ones(1, 2)


def compiled_calls():
    """Name and call of each kind of compiled function."""

    def compiled(fn):
        return graphwright.compile(fn, backend="eager")

    one, keywords, broken, effects = map(compiled, (add_one, with_keywords, breaks, with_effects))
    module = compiled(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    method = compiled(Scaled().apply)
    return {
        "x + 1": lambda: one(VECTOR),
        "keywords": lambda: keywords(VECTOR, a=2, b=3),
        "module": lambda: module(ROW),
        "graph break": lambda: broken(VECTOR),
        "side effects": lambda: effects(VECTOR),
        "method": lambda: method(VECTOR),
    }


KINDS = ["x + 1", "keywords", "module", "graph break", "side effects", "method"]


def repeat(call, count):
    for _ in range(count):
        call()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_million_calls_do_not_grow(kind):
    call = compiled_calls()[kind]
    grew = growth(lambda: repeat(call, 1_000_000), lambda: repeat(call, 20_000))
    print(f"\n1,000,000 cached calls, {kind}: {grew:.2f} MiB")
    assert grew <= 5


@pytest.mark.parametrize("kind", KINDS)
def test_calls_leave_no_objects(kind):
    call = compiled_calls()[kind]
    repeat(call, 300)
    gc.collect()
    before = len(gc.get_objects())
    repeat(call, 2_000)
    gc.collect()
    assert len(gc.get_objects()) - before < 50
    assert graphwright.events.counters().get("InternalErrorCaught", 0) == 0


@pytest.mark.parametrize("limit", [1, 4])
def test_calls_past_the_limit_do_not_grow(limit):
    def f(x, n):
        return x + n

    compiled = graphwright.compile(f, backend="eager")
    with patch(recompile_limit=limit):
        for n in range(8):
            compiled(VECTOR, n)
        gc.collect()
        before = len(gc.get_objects())
        for n in range(500):
            assert compiled(VECTOR, n)[0] == n + 1
        gc.collect()
        assert len(gc.get_objects()) - before < 50


def test_reset_and_capture_again_do_not_grow():
    compiled = graphwright.compile(breaks, backend="eager")

    def again(count):
        for _ in range(count):
            graphwright.reset()
            compiled(VECTOR)

    again(10)
    gc.collect()
    before = len(gc.get_objects())
    again(20)
    gc.collect()
    assert len(gc.get_objects()) - before < 200


def test_compiling_the_same_function_again_does_not_grow():
    def again(count):
        for _ in range(count):
            graphwright.compile(add_one, backend="eager")(VECTOR)

    again(20)
    gc.collect()
    before = len(gc.get_objects())
    again(200)
    gc.collect()
    assert len(gc.get_objects()) - before < 50
