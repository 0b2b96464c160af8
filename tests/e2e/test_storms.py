"""What a value that changes at every call costs: each program states its compiles, and none goes on for ever."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import graphwright
from graphwright import config
from graphwright.testing import CompileCounter

CALLS = 20
X = torch.ones(3)
STORMS: list[Storm] = []


@dataclass(frozen=True)
class Storm:
    """A function, the arguments of its calls, and how many graphs all calls cost."""

    fn: Callable[..., Any]
    args: Callable[[int], tuple[Any, ...]]
    compiles: int
    label: str = ""


def storm(args, compiles, label=""):
    def enter(fn):
        STORMS.append(Storm(fn, args, compiles, label or fn.__name__))
        return fn

    return enter


# ------------------------------------------------------------------ numbers and strings


@storm(lambda i: (X, 0.5 + i), 2, "float")
@storm(lambda i: (X, 2 + i), 2, "int")
@storm(lambda i: (X, (i + 2) / 7 if i % 2 else i + 2), 3, "int_or_float")  # one int, any float, any int
def scaled(x, s):
    return x * s


@storm(lambda i: (torch.ones(2 * (i + 2)), (2, i + 2)), 2)
def shaped_by_a_tuple(x, shape):
    return x.reshape(shape)


@storm(lambda i: (torch.ones(CALLS + 2, 2), i), 2)
def row(x, i):
    return x[i]


@storm(lambda i: (X, "a" * i), 8)
def string_length(x, s):
    return x + len(s)


@storm(lambda i: (X, f"step {i}"), 8)
def string_compared(x, s):
    return x + 1 if s == "stop" else x * 2


@storm(lambda i: (X, [float(n) for n in range(CALLS)], i), 8)
def item_of_a_list(x, items, i):
    return x + items[i]


# ------------------------------------------------------------------ functions and objects


@storm(lambda i: (X, lambda y: y * 2), 1, "fresh_lambda")
@storm(lambda i: (X, lambda y: y * (i + 2)), 2, "fresh_closure")
@storm(lambda i: (X, functools.partial(torch.add, other=1)), 1, "fresh_partial")
@storm(lambda i: (X, functools.partial(torch.mul, other=i + 2)), 2, "fresh_partial_of_another_number")
def applied(x, g):
    return g(x) + 1


class Options:
    scale = 3


@storm(lambda i: (X, Options()), 1, "fresh_object")
@storm(lambda i: (X, type("Fresh", (Options,), {})()), CALLS, "fresh_class")  # up to accumulated_recompile_limit
def with_options(x, options):
    return x * options.scale


@storm(lambda i: (X, [None, 1, 2.5, True, X, X.double(), X.int(), X.half(), X[:1], "a"][i % 10]), 9)
def anything(x, y):
    return x * 2 if y is None or isinstance(y, str) else x + y


# ------------------------------------------------------------------ state


COUNT = 0


@storm(lambda i: (X,), 2)
def global_counter(x):
    global COUNT
    COUNT += 1
    return x * COUNT


class Steps:
    def __init__(self):
        self.step = 0


STEPS = Steps()


@storm(lambda i: (X, STEPS), 2)
def attribute_counter(x, steps):
    steps.step += 1
    return x * steps.step


GROWING_DICT: dict[str, int] = {}
GROWING_LIST: list[torch.Tensor] = []
GROWING_SET: set[int] = set()


def grow_dict(i):
    GROWING_DICT[f"key {i}"] = i
    return (X, GROWING_DICT)


def grow_list(i):
    GROWING_LIST.append(X)
    return (X, GROWING_LIST)


def grow_set(i):
    GROWING_SET.add(i)
    return (X, GROWING_SET)


@storm(grow_dict, 8, "dict")
@storm(grow_list, 8, "list")
@storm(grow_set, 8, "set")
def length_of(x, items):
    return x + len(items)


@storm(grow_list, 8)
def sum_of(x, items):
    for item in items:
        x = x + item
    return x


@storm(grow_dict, 1)
def key_of_a_growing_dict(x, items):
    return x + items["key 0"]


def start():
    """The state of the first call."""
    global COUNT
    COUNT = STEPS.step = 0
    GROWING_DICT.clear()
    GROWING_LIST.clear()
    GROWING_SET.clear()


@pytest.mark.parametrize("storm", STORMS, ids=lambda storm: f"{storm.fn.__name__}-{storm.label}")
def test_storm(storm):
    start()
    want = [storm.fn(*storm.args(i)) for i in range(CALLS)]
    start()
    counter = CompileCounter()
    compiled = graphwright.compile(storm.fn, backend=counter)
    for i in range(CALLS):
        got = compiled(*storm.args(i))
        assert got.dtype == want[i].dtype
        assert torch.equal(got, want[i]), i
    assert counter.frame_count == storm.compiles


# ------------------------------------------------------------------ modules


class Stack(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Block(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.tanh(self.linear(x)) + self.number


class BreakingBlock(Block):
    def forward(self, x):
        graphwright.graph_break()
        return super().forward(x)


def check_module(module, compiles):
    counter = CompileCounter()
    compiled = graphwright.compile(module, backend=counter)
    for _ in range(3):
        torch.testing.assert_close(compiled(X), module(X))
    assert counter.frame_count == compiles


def test_fifty_layers_are_one_graph():
    check_module(Stack(Block(n) for n in range(50)), 1)


def test_fifty_layers_beyond_a_graph_break_share_entries():
    check_module(Stack(BreakingBlock(n) for n in range(50)), 2)  # number 0, then any


def test_fifty_layers_compiled_one_by_one_share_an_entry():
    counter = CompileCounter()
    for layer in [torch.nn.Linear(3, 3) for _ in range(50)]:
        torch.testing.assert_close(graphwright.compile(layer, backend=counter)(X), layer(X))
    assert counter.frame_count == 1


def test_wrappers_made_anew_share_entries():
    def wrapped(fn):
        @functools.wraps(fn)
        def wrapper(x):
            return fn(x) + 1

        return wrapper

    counter = CompileCounter()
    for _ in range(CALLS):
        assert torch.equal(graphwright.compile(wrapped(lambda x: x * 2), backend=counter)(X), X * 2 + 1)
    assert counter.frame_count == 1


def test_no_storm_goes_past_the_accumulated_limit():
    counter = CompileCounter()
    compiled = graphwright.compile(with_options, backend=counter)
    with config.patch(accumulated_recompile_limit=12):
        for _ in range(CALLS):
            assert torch.equal(compiled(X, type("Fresh", (Options,), {})()), X * 3)
    assert counter.frame_count == 12
