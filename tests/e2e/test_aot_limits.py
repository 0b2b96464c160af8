"""Programs at the limits of AOTAutograd give with `aot_eager` what they give in eager; those beyond are left to it.

Each program writes to inputs, or returns views of them, where inputs share memory, have gradients or not, are leaves or
views. Results, gradients, memory shared, and what later writes do to each are compared.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphwright
from graphwright import events
from graphwright.likeness import Likeness

pytestmark = pytest.mark.e2e

Tensors = tuple[torch.Tensor, ...]
AOT = "aot_eager"


@pytest.fixture(autouse=True)
def _fresh():
    yield
    graphwright.reset()


# ------------------------------------------------------------------ inputs: leaves, and what the program is given


def plain() -> tuple[Tensors, Tensors]:
    x = torch.arange(6.0).reshape(2, 3) / 4
    return (x,), (x, torch.cos(x))


def view_of_the_other() -> tuple[Tensors, Tensors]:
    x = torch.arange(6.0).reshape(2, 3) / 4
    return (x,), (x, x[0])


def views_that_overlap() -> tuple[Tensors, Tensors]:
    x = torch.arange(6.0) / 4
    return (x,), (x[:4], x[2:])


def views_side_by_side() -> tuple[Tensors, Tensors]:
    x = torch.arange(6.0) / 4
    return (x,), (x[:3], x[3:])


def leaf() -> tuple[Tensors, Tensors]:
    x = (torch.arange(6.0).reshape(2, 3) / 4).requires_grad_()
    return (x,), (x, torch.cos(x.detach()))


def leaf_and_its_view() -> tuple[Tensors, Tensors]:
    x = (torch.arange(6.0).reshape(2, 3) / 4).requires_grad_()
    return (x,), (x, x.view(-1)[1:4])


def views_of_a_leaf() -> tuple[Tensors, Tensors]:
    x = (torch.arange(6.0).reshape(2, 3) / 4).requires_grad_()
    return (x,), (x[:1], x[:1])


def detached_from_the_other() -> tuple[Tensors, Tensors]:
    x = (torch.arange(6.0).reshape(2, 3) / 4).requires_grad_()
    inner = x * 2
    return (x,), (inner, inner.detach())


def computed_and_its_view() -> tuple[Tensors, Tensors]:
    x = (torch.arange(6.0).reshape(2, 3) / 4).requires_grad_()
    inner = x * 2
    return (x,), (inner, inner.view(-1)[1:4])


def views_of_the_computed() -> tuple[Tensors, Tensors]:
    x = (torch.arange(6.0).reshape(2, 3) / 4).requires_grad_()
    inner = x * 2
    return (x,), (inner[:1], inner.t()[:, 1:])


def view_of_the_computed() -> tuple[Tensors, Tensors]:
    x = (torch.arange(6.0).reshape(2, 3) / 4).requires_grad_()
    inner = x * 2
    return (x,), (inner[:1], torch.cos(x.detach()[:1]))


def unwritten_without_gradient() -> tuple[Tensors, Tensors]:
    x = (torch.arange(6.0).reshape(2, 3) / 4).requires_grad_()
    return (x,), (torch.cos(x.detach()), x * 2)


def view_of_a_leaf() -> tuple[Tensors, Tensors]:
    x = (torch.arange(6.0).reshape(2, 3) / 4).requires_grad_()
    return (x,), (x.t(), torch.cos(x.detach()))


INPUTS = (
    plain, view_of_the_other, views_that_overlap, views_side_by_side, leaf, leaf_and_its_view, views_of_a_leaf,
    detached_from_the_other, computed_and_its_view, views_of_the_computed, view_of_the_computed,
    view_of_a_leaf,
    unwritten_without_gradient,
)  # fmt: skip

# ------------------------------------------------------------------ programs


def writes_and_reads_the_other(x, y):
    x.mul_(3)
    return (y * 2).sum(), x.exp()


def writes_and_returns_views(x, y):
    x -= 2
    return y[0:1], x.view(-1)[:2]


def writes_through_a_view(x, y):
    x.view(-1)[:2].add_(1)
    return (x * y.sum(),)


def writes_without_gradients(x, y):
    with torch.no_grad():
        x.zero_()
    return x * 2, y + 1


def only_writes_without_gradients(x, y):
    with torch.no_grad():
        x.add_(1.5)
    return (x.detach() * 2,)


def writes_with_and_without_gradients(x, y):
    with torch.no_grad():
        x.add_(1)
    x.mul_(y.sum())
    return (x.sin(),)


def writes_to_the_detached(x, y):
    x.detach().mul_(2)
    return (x * y.sum(),)


def writes_to_both(x, y):
    x.add_(1)
    y.mul_(2)
    return x.sum() + y.sum(), y


def writes_nothing_alone(x, y):
    x.copy_(x.detach() + 1)


def returns_detached(x, y):
    x.mul_(2)
    return x.detach(), y.float().detach()


def returns_views_only(x, y):
    return x.view(-1)[1:], y.t() if y.dim() > 1 else y[:1], x


def returns_views_made_without_gradients(x, y):
    with torch.no_grad():
        seen = x.view(-1)
        return seen, y[:1], seen + 1


def returns_views_of_a_result_made_without_gradients(x, y):
    z = x * 2
    with torch.no_grad():
        seen = z.view(-1)
    return z, seen, y


def writes_to_views_made_without_gradients(x, y):
    with torch.no_grad():
        x.view(-1)[:2].add_(y.sum())
    return (x * 2,)


def returns_a_result_and_its_views(x, y):
    z = x * y.sum()
    z[:1].add_(1)
    return z, z[:1], z.view(-1), z.detach()


def splits_and_writes(x, y):
    first = x.split(1)[0]
    first.mul_(2)
    return first, y.sum() + x.sum()


def changes_the_layout(x, y):
    x.unsqueeze_(0)
    return x + 1, y.sum()


def fills_from_the_other(x, y):
    x[:1] = y.sum()
    return (x[:1] * 2,)


def asks_for_gradients(x, y):
    z = x.detach().requires_grad_()
    return z * 2, z, y


def adds_to_the_detached_and_returns_it(x, y):
    seen = y.detach()
    seen.add_(x.sum())
    return (seen,)


def multiplies_a_detached_view(x, y):
    seen = y.view(-1).data
    seen.mul_(x.sum())
    return seen, y * 2


def adds_to_a_detached_result(x, y):
    z = x * 2
    seen = z.detach()
    seen.add_(y.sum())
    return seen, z


def splits_what_it_wrote_to(x, y):
    x.add_(y.sum())
    return x.split(1)[-1], y.unbind(0)[0]


def writes_without_gradients_and_computes(x, y):
    with torch.no_grad():
        x[:1] = 3
    return x * y.sum(), x[:1]


PROGRAMS = (
    writes_and_reads_the_other, writes_and_returns_views, writes_through_a_view, writes_without_gradients,
    only_writes_without_gradients, writes_with_and_without_gradients, writes_to_the_detached, writes_to_both,
    writes_nothing_alone, returns_detached, returns_views_only, returns_views_made_without_gradients,
    returns_views_of_a_result_made_without_gradients, writes_to_views_made_without_gradients,
    returns_a_result_and_its_views, splits_and_writes, changes_the_layout, fills_from_the_other, asks_for_gradients,
    adds_to_the_detached_and_returns_it, multiplies_a_detached_view, adds_to_a_detached_result,
    splits_what_it_wrote_to, writes_without_gradients_and_computes,
)  # fmt: skip

# ------------------------------------------------------------------ what becomes of them


def has_history(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad and (tensor.is_leaf or tensor.grad_fn is not None)


def backward(results: Any) -> str:
    try:
        sums = [result.sum() for result in results or () if has_history(result)]
        if sums:
            torch.autograd.backward(sums)
    except RuntimeError as error:
        return str(error)[:60]
    return "done"


def shared_memory(tensors: Tensors) -> list[tuple[int, int]]:
    storages = [t.untyped_storage().data_ptr() for t in tensors]
    return [(i, j) for i, j in itertools.combinations(range(len(storages)), 2) if storages[i] == storages[j]]


def facts(tensors: Tensors) -> list[tuple[Any, ...]]:
    return [(t.requires_grad, t.is_leaf, t._is_view(), t._base is not None, t.stride()) for t in tensors]


def numbers(tensors: Tensors) -> list[Any]:
    with torch.no_grad():
        return [t.tolist() for t in tensors]


def aftermath(program: Callable[..., Any], make: Callable[[], tuple[Tensors, Tensors]], written: int | None) -> Any:
    """What a call does, and what a write to one of its results or inputs does afterwards."""
    leaves, inputs = make()
    try:
        results = program(*inputs)
    except RuntimeError as error:
        return re.sub(r"of \w+ is a view .*", "of a view", str(error)), []
    everything = (*leaves, *inputs, *(results or ()))
    noted = [facts(everything), shared_memory(everything), numbers(everything)]
    if written is not None and written < len(everything):
        with contextlib.suppress(RuntimeError):
            everything[written].mul_(5)
            noted.append(numbers(everything))
    return noted, [backward(results), [leaf.grad for leaf in leaves]]


def check(program: Callable[..., Any], make: Callable[[], tuple[Tensors, Tensors]]) -> None:
    compiled = graphwright.compile(program, backend=AOT)
    leaves, inputs = make()
    count = len(leaves) + len(inputs)
    for written in (None, 0, count - 1, count, count + 1, count + 2):
        want, after = aftermath(program, make, written)
        got, got_after = aftermath(compiled, make, written)
        difference = Likeness(1e-6, 1e-6).difference(got, want)
        # AOTAutograd saves values of its own, so that a write to an input later does not spoil the backward.
        if difference is None and not (after and "needed for gradient computation" in after[0]):
            difference = Likeness(1e-6, 1e-6).difference(got_after, after)
        assert difference is None, f"{make.__name__}, with a write to {written}: {difference}"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_same_as_eager(program):
    for make in (views_of_a_leaf, computed_and_its_view, view_of_a_leaf):
        check(program, make)
        graphwright.reset()


@pytest.mark.slow
@pytest.mark.parametrize("make", INPUTS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_same_as_eager_with_all_inputs(program, make):
    check(program, make)


# ------------------------------------------------------------------ it says so

LEFT = (
    (writes_and_returns_views, view_of_the_other, "shares memory"),
    (writes_without_gradients, views_of_a_leaf, "shares memory"),
    (writes_through_a_view, detached_from_the_other, "shares memory"),
    (returns_views_made_without_gradients, leaf, "has no history"),
    (only_writes_without_gradients, view_of_the_computed, "cut it off from its history"),
    (writes_without_gradients_and_computes, view_of_a_leaf, "a view of a leaf"),
    (splits_what_it_wrote_to, computed_and_its_view, "shares memory"),
    (splits_what_it_wrote_to, view_of_the_computed, "one of several views"),
    (adds_to_the_detached_and_returns_it, leaf, "has a history of its own"),
    (multiplies_a_detached_view, leaf, "has a history of its own"),
)
KEPT = (
    (writes_and_returns_views, plain),
    (writes_to_both, views_side_by_side),
    (returns_views_only, computed_and_its_view),
    (writes_without_gradients, view_of_the_computed),  # a gradient is asked for, so the history is kept
    (only_writes_without_gradients, leaf),
    (adds_to_the_detached_and_returns_it, plain),
    (splits_what_it_wrote_to, plain),
    (writes_without_gradients_and_computes, view_of_the_computed),
    (adds_to_a_detached_result, leaf),
)


@pytest.mark.parametrize(("program", "make", "reason"), LEFT)
def test_graphs_left_to_eager_are_told(program, make, reason, caplog):
    with events.collected(events.GraphLeftToEager) as left, caplog.at_level(logging.WARNING, "graphwright"):
        graphwright.compile(program, backend=AOT, fullgraph=True)(*make()[1])
    (event,) = left
    assert reason in str(event.error)
    assert event.backend == AOT
    assert event.location is not None
    assert "runs in eager" in caplog.text


@pytest.mark.parametrize(("program", "make"), KEPT)
def test_what_aot_autograd_can_do_is_compiled(program, make):
    with events.collected(events.GraphLeftToEager) as left:
        graphwright.compile(program, backend=AOT, fullgraph=True)(*make()[1])
    assert not left


@pytest.mark.parametrize("program", [only_writes_without_gradients, writes_without_gradients, writes_to_the_detached])
@pytest.mark.parametrize("make", [view_of_the_computed, plain])
def test_an_input_that_was_written_to_keeps_its_history(program, make):
    found = []
    for function in (program, graphwright.compile(program, backend=AOT, fullgraph=True)):
        leaves, (x, y) = make()
        function(x, y)
        if x.requires_grad:
            (x * 3).sum().backward()
        found.append((x.detach(), leaves[0].grad))
    torch.testing.assert_close(*found)


def test_what_aot_autograd_refuses_runs_in_eager():
    def spoils_its_backward(x, y):
        z = x * 2
        result = z.exp()
        result.add_(1)
        return result * y

    with events.collected(events.GraphLeftToEager) as left:
        compiled = graphwright.compile(spoils_its_backward, backend=AOT)
        for function in (compiled, spoils_its_backward):
            x = torch.ones(2, requires_grad=True)
            result = function(x, torch.ones(2))
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                result.sum().backward()
    assert len(left) == 1


# ------------------------------------------------------------------ memory, layouts and random numbers


def writes_to_the_second(x, t):
    t.add_(1)
    return x * 1


def writes_to_a_view_of_the_second(x, t):
    t[1:].mul_(3)
    return x + t, x[:1]


def aliases_its_argument(x):
    t = torch.as_tensor(x.numpy())
    t.add_(1)
    return x * 1, t


def through_numpy() -> Tensors:
    x = torch.arange(3.0)
    return x, torch.from_numpy(x.numpy())


def through_dlpack() -> Tensors:
    x = torch.arange(3.0)
    return x, torch.from_dlpack(x)


def through_a_buffer() -> Tensors:
    memory = bytearray(12)
    return torch.frombuffer(memory, dtype=torch.float32), torch.frombuffer(memory, dtype=torch.float32)


def apart() -> Tensors:
    return torch.arange(3.0), torch.arange(3.0)


def writes_through_an_expanded_view(x):
    x[:1].expand(3).add_(1)
    return x


def writes_to_an_expanded_result(x):
    return torch.relu_((x * 2)[:1].expand(3))


def writes_to_windows(x):
    x.unfold(0, 2, 1).add_(1)
    return x


def writes_beside_its_input(x):
    window = x.as_strided((2,), (1,), 1)
    window.fill_(3)
    return window, x * 1


def reads_beside_its_written_input(x):
    x.add_(1)
    return x.as_strided((2,), (1,), 1) * 2


def writes_to_a_row_of_the_expanded(x):
    x[:1].expand(3)[0].add_(1)
    return x.expand(2, -1).clone().add_(1)


def sparse_and_back(x):
    return x.reshape(2, 2).to_sparse().to_dense() * 2


def sparse_product(x):
    return torch.sparse.mm(x.reshape(2, 2).to_sparse(), x.reshape(2, 2).sin())


def every_second() -> Tensors:
    return (torch.arange(8.0)[::2],)


def a_leaf() -> Tensors:
    return (torch.arange(4.0).requires_grad_(),)


BEYOND = (
    *((writes_to_the_second, make, "shares memory with its input")
      for make in (through_numpy, through_dlpack, through_a_buffer)),
    (writes_to_a_view_of_the_second, through_numpy, "shares memory with its input"),
    (aliases_its_argument, lambda: (torch.arange(3.0),), "shares memory with its input"),
    (writes_through_an_expanded_view, every_second, "several elements in one place"),
    (writes_to_an_expanded_result, every_second, "several elements in one place"),
    (writes_to_windows, every_second, "several elements in one place"),
    (writes_beside_its_input, every_second, "as_strided"),
    (reads_beside_its_written_input, every_second, "as_strided"),
    (sparse_and_back, a_leaf, "torch.sparse_coo"),
    (sparse_product, a_leaf, "torch.sparse_coo"),
)  # fmt: skip
WITHIN = (
    (writes_to_the_second, apart),
    (writes_to_a_row_of_the_expanded, every_second),
    (lambda x: x.expand(3, -1) + x.as_strided((2,), (1,), 1).sum(), every_second),
)


def outcome(program: Callable[..., Any], inputs: Tensors) -> Any:
    """What a program gives, or raises, makes of its inputs, and gives gradients to."""
    try:
        results = program(*inputs)
    except RuntimeError as error:
        return str(error), inputs
    results = (results,) if isinstance(results, torch.Tensor) else results
    backward(results)
    return [(r.detach(), r.requires_grad) for r in results], inputs, [t.grad for t in inputs if t.requires_grad]


@pytest.mark.parametrize("backend", ["eager", AOT])
@pytest.mark.parametrize(("program", "make", "reason"), BEYOND)
def test_graphs_beyond_aot_autograd_do_as_in_eager(program, make, reason, backend):
    compiled = graphwright.compile(program, backend=backend)
    with events.collected(events.GraphLeftToEager) as left:
        for _ in range(2):
            assert Likeness(0, 0).difference(outcome(compiled, make()), outcome(program, make())) is None
    assert [reason in str(event.error) for event in left] == ([True] if backend == AOT else [])


@pytest.mark.parametrize(("program", "make"), WITHIN)
def test_graphs_like_them_that_aot_autograd_can_do(program, make):
    compiled = graphwright.compile(program, backend=AOT, fullgraph=True)
    with events.collected(events.GraphLeftToEager) as left:
        assert Likeness(0, 0).difference(outcome(compiled, make()), outcome(program, make())) is None
    assert not left


@pytest.mark.parametrize("first", [apart, through_numpy])
def test_a_graph_is_compiled_anew_where_memory_is_shared_otherwise(first):
    compiled = graphwright.compile(writes_to_the_second, backend=AOT)
    for make in (first, apart, through_numpy, apart):
        assert Likeness(0, 0).difference(outcome(compiled, make()), outcome(writes_to_the_second, make())) is None


@pytest.mark.parametrize("backend", ["eager", AOT])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_drop_what_they_drop_in_eager(kind, backend):
    torch.manual_seed(0)
    module = kind(3, 4, 2, dropout=0.5)
    compiled = graphwright.compile(module, backend=backend)
    found = []
    with events.collected(events.GraphLeftToEager) as left:
        for function in (module, compiled):
            torch.manual_seed(1)
            y, state = function(torch.ones(2, 5, 3))
            y.sum().backward()
            found.append((y.detach(), state, torch.rand(1), [p.grad for p in module.parameters()]))
            module.zero_grad()
    torch.testing.assert_close(*found, rtol=0, atol=0)
    assert ["has dropout between its layers" in str(event.error) for event in left] == ([True] * (backend == AOT))


def test_recurrent_layers_that_drop_nothing_are_compiled():
    module = torch.nn.LSTM(3, 4, 2, dropout=0.5).eval()
    with events.collected(events.GraphLeftToEager) as left:
        y, _ = graphwright.compile(module, backend=AOT)(torch.ones(2, 5, 3))
    torch.testing.assert_close(y, module(torch.ones(2, 5, 3))[0])
    assert not left


COMPRESSED = """
import torch
import graphwright

def program(x):
    return x.to_sparse_csr().values() * 2

x = torch.arange(4.0).reshape(1, 4).requires_grad_()
result = graphwright.compile(program, backend="aot_eager")(x * 1)
result.sum().backward()
print(result.tolist(), x.grad.tolist())
"""


def test_compressed_sparse_tensors_do_not_end_the_process():
    """In a process of its own: AOTAutograd aborts it."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", COMPRESSED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    assert "[2.0, 4.0, 6.0] [[0.0, 2.0, 2.0, 2.0]]" in done.stdout
    assert "torch.sparse_csr" in done.stderr


# ------------------------------------------------------------------ what stays beyond


@pytest.mark.parametrize(("backend", "refuses"), [("eager", False), (AOT, True)])
def test_a_second_backward_is_for_eager_only(backend, refuses):
    """As docs/backends/aot-limits.md says: the gradient is right, its own gradient is refused in torch's words."""
    torch.manual_seed(0)
    critic = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    found = []
    for function in (critic, graphwright.compile(critic, backend=backend)):
        x = torch.ones(2, 3, requires_grad=True)
        (gradient,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        found.append(gradient.detach())
        expected = pytest.raises(RuntimeError, match="does not currently support double backward")
        with expected if refuses and function is not critic else contextlib.nullcontext():
            ((gradient.norm(2, 1) - 1) ** 2).mean().backward()
    torch.testing.assert_close(*found)
