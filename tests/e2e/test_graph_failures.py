"""A graph that raises when it runs: the call does what it does in eager."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback

import pytest
import torch

import graphwright
from graphwright import config, events
from graphwright.testing import assert_captures
from graphwright_plugins import BackendContractError

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def _strict():
    with config.patch(raise_internal_errors=True):
        yield
    graphwright.reset()


def fail_at(number):
    """A backend whose graph raises at a given call, as a backend with a bug does."""

    def backend(module, example_inputs):
        calls = 0

        def run(*inputs):
            nonlocal calls
            calls += 1
            if calls == number:
                raise RuntimeError("bug")
            return module(*inputs)

        return run

    return backend


def run(fn, *args):
    """Call a function; gives its result or exception, and the random state afterwards."""
    torch.manual_seed(0)
    try:
        outcome = fn(*args)
    except Exception as error:  # what is compared
        outcome = error
    return outcome, torch.get_rng_state()


class Box:
    def __init__(self):
        self.n = 0


def takes(x, index, items, box):
    items.append(1)
    box.n += 1
    y = x[index]
    items.append(y)
    return y * 2


def draws(x, index, items, box):
    items.append(torch.rand(2))
    x = torch.nn.functional.dropout(x, 0.5)
    box.n += 1
    y = x[index]
    items.append(y)
    return y * 2 + torch.rand(1)


def writes(x, index, items, box):
    items.append(1)
    x.mul_(2)
    y = x[index]
    box.n += 1
    items.append(y)
    return y * 2


def in_a_closure(x, index, items, box):
    n = 1

    def add(t):
        nonlocal n
        n += 1
        items.append(n)
        return t + n

    y = add(add(x))
    box.n = n
    y = y[index]
    return y, lambda: (add(y), n)


def in_a_finally(x, index, items, box):
    try:
        box.n += 1
        return x[index]
    finally:
        items.append(box.n)


def writes_before_a_finally(x, index, items, box):
    x.add_(1)
    try:
        box.n += 1
        return x - (len(index) > 1)
    finally:
        items.append(box.n)


def writes_after_failing_in_a_finally(x, index, items, box):
    try:
        y = x - (len(index) > 1)
    finally:
        items.append(1)
    x.add_(1)
    box.n += 1
    return y + x.sum()


def writes_and_fails_at_once(x, index, items, box):
    try:
        x -= len(index) > 1
    finally:
        box.n += 1
        items.append(x + 1)
    return x * 2


def after_a_break(x, index, items, box):
    n = 0

    def add(t):
        nonlocal n
        n += 1
        return t + n

    items.append(add(x))
    graphwright.graph_break()
    box.n += 1
    y = add(x)[index]
    items.append(n)
    return y


class Base:
    def take(self, x, index, items):
        items.append(0)
        return x[index]


class Derived(Base):
    def take(self, x, index, items):
        items.append(1)
        return super().take(x, index, items), lambda: self


def in_a_method(x, index, items, box):
    return Derived().take(x, index, items)[0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "fn",
    [
        takes,
        draws,
        writes,
        in_a_closure,
        in_a_finally,
        writes_before_a_finally,
        writes_after_failing_in_a_finally,
        writes_and_fails_at_once,
        after_a_break,
        in_a_method,
    ],
    ids=lambda fn: fn.__name__,
)
def test_failing_for_values(fn, backend):
    compiled = graphwright.compile(fn, backend=backend)
    for last in (2, 7, 1, 9):
        index = torch.tensor([0, last])
        sides = []
        for call in (fn, compiled):
            x, items, box = torch.arange(3.0), [], Box()
            outcome, state = run(call, x, index, items, box)
            sides.append((outcome, state, x, items, box))
        (want, state, x, items, box), (got, our_state, our_x, our_items, our_box) = sides
        assert repr(got).split(" at 0x")[0] == repr(want).split(" at 0x")[0]
        assert torch.equal(state, our_state)
        assert torch.equal(x, our_x)
        assert repr(items) == repr(our_items)
        assert box.n == our_box.n
        if isinstance(want, Exception):
            frames = [f for f in traceback.extract_tb(got.__traceback__) if f.filename == __file__]
            wanted = [f for f in traceback.extract_tb(want.__traceback__) if f.filename == __file__]
            assert frames[-1].lineno == wanted[-1].lineno
            assert got.__context__ is want.__context__ is None


@pytest.mark.parametrize("fn", [takes, draws, in_a_finally])
def test_it_is_one_graph(fn):
    assert_captures(fn, torch.ones(3), torch.tensor([0]), [], Box(), graphs=1)


def test_eager_goes_on_where_a_backend_fails(caplog):
    def f(x, items):
        items.append(x + 1)
        return x * 2

    compiled = graphwright.compile(f, backend=fail_at(2))
    with events.collected(events.GraphFailed) as failed, caplog.at_level(logging.WARNING, "graphwright"):
        for _ in range(3):
            items = []
            assert compiled(torch.ones(1), items).tolist() == [2.0]
            assert [t.tolist() for t in items] == [[2.0]]
    assert [(str(e.error), e.runs_in_eager, e.loses_effects) for e in failed] == [("bug", True, False)]
    assert "if that does not raise, the backend is at fault" in caplog.text


def test_a_graph_that_has_written_does_not_run_again(caplog):
    def f(x, items):
        items.append(1)
        return x.add_(1)

    compiled = graphwright.compile(f, backend=fail_at(2))
    x = torch.zeros(1)
    compiled(x, [])
    with events.collected(events.GraphFailed) as failed, caplog.at_level(logging.WARNING, "graphwright"):
        with pytest.raises(RuntimeError, match="bug"):
            compiled(x, [])
        assert compiled(x, []).tolist() == [2.0]
    assert [(e.runs_in_eager, e.loses_effects) for e in failed] == [(False, True)]
    assert "is lost" in caplog.text


def test_an_unknown_operator_does_not_run_again():
    calls = []

    @torch.library.custom_op("graphwright_failures::note", mutates_args=())
    def note(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + 1

    @note.register_fake
    def _(x):
        return torch.empty_like(x)

    def f(x, index):
        return note(x)[index]

    compiled = graphwright.compile(f, backend="eager")
    with pytest.raises(IndexError):
        compiled(torch.ones(2), torch.tensor([5]))
    assert calls == [1]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_requests_to_leave_do_not_run_again(kind):
    def backend(module, example_inputs):
        def leave(*inputs):
            raise kind

        return leave

    def f(x, items):
        items.append(1)
        return x + 1

    items = []
    with events.collected(events.GraphFailed) as failed, pytest.raises(kind):
        graphwright.compile(f, backend=backend)(torch.ones(1), items)
    assert items == []
    assert failed == []


def test_a_backend_that_breaks_its_contract_is_an_error():
    def f(x):
        return x + 1

    compiled = graphwright.compile(f, backend=lambda module, inputs: lambda *args: 1)
    with pytest.raises(BackendContractError, match="returned a int where a tuple or list"):
        compiled(torch.ones(1))


def test_whole_functions_run_again_too():
    compiled = graphwright.compile(takes, backend="eager", fullgraph=True)
    items = []
    with pytest.raises(IndexError):
        compiled(torch.ones(3), torch.tensor([5]), items, Box())
    assert items == [1]


def test_all_kinds_of_parameters_reach_eager():
    def f(x, /, index, *rest, scale=2, items, **options):
        items.append((scale, rest, sorted(options)))
        return x[index] * scale

    compiled = graphwright.compile(f, backend="eager")
    items = []
    compiled(torch.ones(2), torch.tensor([0]), 4, items=items, q=1)
    with pytest.raises(IndexError):
        compiled(torch.ones(2), torch.tensor([5]), 4, items=items, q=1)
    assert items[0] == items[1] == (2, (4,), ["q"])


def test_locals_show_the_users_variables():
    def f(x, index):
        y = x[index]
        return y

    compiled = graphwright.compile(f, backend="eager")
    with pytest.raises(IndexError) as caught:
        compiled(torch.ones(2), torch.tensor([5]))
    frame = caught.value.__traceback__.tb_next.tb_frame
    assert sorted(frame.f_locals) == ["index", "x"]
    assert sys.exc_info()[1] is None


def test_dropout_before_a_loss_and_a_counter_is_one_graph():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0
            self.head = torch.nn.Linear(4, 3)

        def forward(self, x, labels):
            self.steps += 1
            x = torch.nn.functional.dropout(x, 0.5)
            return torch.nn.functional.cross_entropy(self.head(x), labels)

    model, twin = Model(), Model()
    twin.load_state_dict(model.state_dict())
    compiled = graphwright.compile(twin, backend="eager")
    with events.collected(events.GraphBroke) as broke:
        for label in (2, 8, 1):
            labels = torch.tensor([0, label])
            want, state = run(model, torch.ones(2, 4), labels)
            got, our_state = run(compiled, torch.ones(2, 4), labels)
            assert repr(got) == repr(want)
            assert torch.equal(state, our_state)
            assert model.steps == twin.steps
    assert broke == []


@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian", "mode"])
def test_a_reduction_that_only_kernels_refuse_fails_where_it_does_in_eager(name: str) -> None:
    def program(x: torch.Tensor, empty: torch.Tensor, log: list[str]) -> torch.Tensor:
        x.add_(2.0)
        with contextlib.suppress(Exception):
            getattr(torch, name)(empty, 0)
            log.append("not reached")
        log.append("after")
        return x * 2

    compiled = graphwright.compile(program, backend="eager")
    for _ in range(2):
        x, log = torch.ones(2), []
        assert compiled(x, torch.ones(0, 3), log).tolist() == [6.0, 6.0]
        assert (x.tolist(), log) == ([3.0, 3.0], ["after"])


def takes_rows(x, index):
    y = x * 2
    return y[index]


def fails_inside(x, index):
    x.add_(1)
    z = x + 1
    return takes_rows(z, index) + 1


def fails_in_torch(x, index):
    x.add_(1)
    return torch.nn.functional.embedding(index, x) + 1


def fails_after_a_break(x, index):
    y = x + 1
    graphwright.graph_break()
    x.mul_(2)
    return takes_rows(y, index)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [fails_inside, fails_in_torch, fails_after_a_break], ids=lambda fn: fn.__name__)
def test_the_traceback_of_a_graph_that_has_written(fn, backend):
    compiled = graphwright.compile(fn, backend=backend)
    compiled(torch.ones(3, 2), torch.tensor([1]))
    seen = []
    for call in (fn, compiled):
        with pytest.raises(IndexError) as failure:
            call(torch.ones(3, 2), torch.tensor([7]))
        frames = traceback.extract_tb(failure.value.__traceback__)
        assert not [f for f in frames if "eval_with_key" in f.filename]
        shown = "".join(traceback.format_exception(failure.value))
        seen.append([(f.lineno, f.line) for f in frames if f.filename == __file__][1:])
        assert all(f"line {line}, in" in shown for line, _ in seen[-1])
    assert seen[0] == seen[1]
