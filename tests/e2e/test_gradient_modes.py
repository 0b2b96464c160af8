"""Functions that turn gradients off and on, break their graph there, and write to their arguments: as in eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphwright
from graphwright import events
from graphwright.likeness import Likeness
from graphwright_plugins import aot_compile
from graphwright_plugins.torch_compat import set_grad_enabled

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore:Error detected in")]


@pytest.fixture(autouse=True)
def _fresh():
    yield
    graphwright.reset()


def pause() -> None:
    graphwright.graph_break()


def writes_without_then_with(x, y):
    with torch.no_grad():
        y.add_(x)
        pause()
    x.copy_(x * 2.0)
    return torch.cos(y)


def writes_before_a_result(x, y):
    with torch.no_grad():
        y.add_(x)
        pause()
    c = y * 5
    y -= 3
    return c


def writes_after_a_break(x, y):
    with torch.no_grad():
        pause()
    x.mul_(2)
    return torch.cos(y)


def writes_before_a_break(x, y):
    x.mul_(2)
    c = torch.cos(y)
    with torch.no_grad():
        pause()
    return c


def turns_on_inside(x, y):
    with torch.no_grad():
        pause()
        with torch.enable_grad():
            x.mul_(2)
            return torch.cos(y)


def only_writes(x, y):
    with torch.enable_grad():
        x.mul_(2)


def computes_with_what_had_no_gradient(x, y):
    with torch.no_grad():
        pause()
        z = x.sum()
    x.mul_(z)
    return y.sum() * x


def writes_to_both_in_turn(x, y):
    with torch.no_grad():
        pause()
        x.add_(1)
    y.mul_(x)


def leaves_gradients_off(x, y):
    x.mul_(2)
    y.add_(x)
    torch.set_grad_enabled(False)
    return x * 3, y


def leaves_gradients_on(x, y):
    torch.set_grad_enabled(True)
    x.mul_(2)
    y.add_(x)
    return x * 3, y


def returns_views_between_breaks(x, y):
    with torch.no_grad():
        pause()
        y.add_(x)
    x.mul_(y)
    with torch.no_grad():
        y.add_(x)
        pause()
    return x, y.view(-1), y * 2


def fails_with_gradients_on(x, y):
    with torch.enable_grad():
        x.mul_(2)
        return torch.mm(x, y)


PROGRAMS = (
    writes_without_then_with, writes_before_a_result, writes_after_a_break, writes_before_a_break, turns_on_inside,
    only_writes, computes_with_what_had_no_gradient, writes_to_both_in_turn, leaves_gradients_off,
    leaves_gradients_on, returns_views_between_breaks, fails_with_gradients_on,
)  # fmt: skip


def outcome(program: Callable[..., Any], enabled: bool) -> Any:
    """Results, the mode that was left, and the gradients that come of results and arguments."""
    leaf = torch.arange(1.0, 4.0).requires_grad_()
    x, y = leaf * 2, leaf * 3
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(enabled)
    try:
        results = program(x, y)
        error = None
    except RuntimeError as raised:
        results, error = None, str(raised)
    finally:
        left = torch.is_grad_enabled()
        torch.set_grad_enabled(before)
    tensors = [t for t in (x, y, *(results if isinstance(results, tuple) else (results,))) if t is not None]
    total = sum((t * weight).sum() for weight, t in enumerate(tensors, 2) if t.grad_fn is not None or t is leaf)
    try:
        total.backward()
        failure = None
    except RuntimeError as raised:
        failure = str(raised)[:60]
    facts = [(t.detach(), t.requires_grad, t.grad_fn is None) for t in tensors]
    return facts, left, error, failure, leaf.grad


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_same_as_eager(backend, program, enabled):
    compiled = graphwright.compile(program, backend=backend)
    want = outcome(program, enabled)
    for _ in range(2):
        difference = Likeness(1e-6, 1e-6).difference(outcome(compiled, enabled), want)
        assert difference is None, difference


@pytest.mark.parametrize("program", [writes_after_a_break, writes_before_a_break, turns_on_inside])
def test_backends_of_torch_compile_get_such_graphs_too(program):
    want = outcome(program, True)
    got = outcome(graphwright.compile(program, backend="aot_eager_decomp_partition"), True)
    assert Likeness(1e-6, 1e-6).difference(got, want) is None


def test_backends_get_graphs_that_begin_and_end_with_gradients_on():
    seen = []

    def backend(graph, example_inputs):
        seen.append((torch.is_grad_enabled(), [n.args[0] for n in graph.graph.nodes if n.target is set_grad_enabled]))
        return graph.forward

    outcome(graphwright.compile(turns_on_inside, backend=backend), False)
    outcome(graphwright.compile(leaves_gradients_off, backend=backend), True)
    assert seen == [(True, [False, True, False, True]), (True, [False, True])]


def test_graphs_without_gradients_stay_as_they_are():
    modes = []

    def backend(graph, example_inputs):
        modes.append(torch.is_grad_enabled())
        assert all(node.target is not set_grad_enabled for node in graph.graph.nodes)
        return graph.forward

    with torch.no_grad():
        graphwright.compile(lambda x: x * 2, backend=backend)(torch.ones(2))
    assert modes == [False]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # inputs made fakes
def test_aot_compile_alone_does_the_same():
    graph = graphwright.explain(turns_on_inside)
    with events.collected(events.GraphCaptured) as found, torch.no_grad():
        graph(torch.ones(3), torch.ones(3))
    module = found[-1].graph_module
    leaf = torch.ones(3, requires_grad=True)
    x, y = leaf * 2, leaf * 3
    inputs = {"l_x_": x, "l_y_": y}
    ordered = [inputs[node.name] for node in module.graph.find_nodes(op="placeholder")]
    with torch.no_grad():
        aot_compile(module, ordered, lambda graph, example_inputs: graph.forward)(*ordered)
        assert not torch.is_grad_enabled()
    x.sum().backward()
    assert leaf.grad.tolist() == [4.0, 4.0, 4.0]


@pytest.mark.parametrize("program", [writes_after_a_break, turns_on_inside])
def test_placeholders_come_first(program):
    graphs = graphwright.explain(program)(torch.ones(3), torch.ones(3)).graphs
    for graph in graphs:
        kinds = [node.op == "placeholder" for node in graph.graph.nodes]
        assert kinds == sorted(kinds, reverse=True)


def goes_on_under_autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pause()
        h = x @ w
    return h.float() * 2 + (w @ w.t()).sum()


def turns_autocast_off(x, w):
    with torch.autocast("cpu", enabled=False):
        return x @ w


@pytest.mark.parametrize("program", [goes_on_under_autocast, turns_autocast_off])
@pytest.mark.parametrize("enabled", [True, False])
def test_gradients_of_what_was_computed_without_autocast_are_not_rounded(program, enabled):
    gradients = []
    for function in (program, graphwright.compile(program, backend="aot_eager")):
        torch.manual_seed(0)
        x, w = torch.randn(5, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            result = function(x, w)
        result.float().sin().sum().backward()
        gradients.append((x.grad, w.grad))
        if program is goes_on_under_autocast and enabled:
            gradients[-1] = (x.grad,)  # AOTAutograd casts w twice, eager once
    assert Likeness().difference(*gradients) is None
