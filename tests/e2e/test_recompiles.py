"""Why a call was captured once more: in words, as data, and what to do about it."""

from __future__ import annotations

import enum
import functools
import gc
import weakref

import pytest
import torch

import graphwright
from graphwright import config, events
from graphwright.exc import CompileArgumentError

ones = torch.ones
STEP = 2


class Config:
    def __init__(self, scale):
        self.scale = scale

    def scaled(self, x):
        return x * self.scale


def plus(x):
    return x + 1


def times(x, n):
    return x * n


def longer(x, items):
    return x + len(items)


def scaled(x, cfg):
    return x * cfg.scale if cfg is not None else x


def applied(x, g):
    return g(x)


def summed(x, d):
    return x + sum(d.values())


def stepped(x):
    return x * STEP


def branching(x):
    return x + 1 if x.shape[0] < 5 else x - 1


def written(a, b):
    a.add_(1)
    return a + b


def maker(scale):
    def inner(x):
        return x * scale

    return inner


def recompiles(fn, *calls, **options):
    """The recompiles of a function over some calls."""
    compiled = graphwright.compile(fn, backend="eager", **options)
    with events.collected(events.Recompiled) as found:
        for args in calls:
            compiled(*args)
    return found


X = ones(3)
_base = ones(6)
_memory = ones(3)
REASONS = [
    (plus, [(ones(2),), (ones(3),)], "tensor 'L['x']' size mismatch at index 0. expected 2, actual 3", "mark_dynamic"),
    (plus, [(ones(2),), (ones(2, 2),)], "tensor 'L['x']' rank mismatch. expected 1, actual 2", "dimensions"),
    (plus, [(X,), (X.double(),)], "tensor 'L['x']' dtype mismatch. expected torch.float32, actual torch.float64",
     "convert"),
    (plus, [(X,), (ones(3, device="meta"),)], "tensor 'L['x']' device type mismatch. expected cpu, actual meta",
     "device"),
    (plus, [(X,), (ones(3, requires_grad=True),)],
     "tensor 'L['x']' requires_grad mismatch. expected False, actual True", "gradient"),
    (plus, [(ones(2, 3),), (ones(3, 2).t(),)], "tensor 'L['x']' stride mismatch at index 0. expected 3, actual 1",
     "contiguous"),
    (plus, [(X,), (3,)], "tensor 'L['x']' type mismatch. expected torch.Tensor, actual int", "type"),
    (times, [(X, 3), (X, 4)], "L['n'] == 3, actual 4", "tensor"),
    (times, [(X, 3), (X, 4), (X, 4.5)], "type(L['n']) is int, actual float", "type"),
    (longer, [(X, [1, 2]), (X, [1])], "len(L['items']) == 2, actual 1", "stack"),
    (longer, [(X, [1]), (X, (1,))], "type(L['items']) is list, actual tuple", "type"),
    (scaled, [(X, Config(2)), (X, Config(3))], "L['cfg'].scale == 2, actual 3", "varies"),
    (scaled, [(X, Config(2)), (X, None)], "type(L['cfg']) is Config, actual NoneType", "type"),
    (applied, [(X, torch.sin), (X, torch.cos)],
     "L['g'] is the builtin function sin, actual the builtin function cos", "make it once"),
    (applied, [(X, Config(2).scaled), (X, Config(3).scaled)], "L['g'].__self__.scale == 2, actual 3", "varies"),
    (summed, [(X, {"a": 1}), (X, {"a": 1, "b": 2})], "list(L['d']) == ['a'], actual ['a', 'b']", "keys"),
    (branching, [(ones(2),), (ones(3),), (ones(6),)], "(L['x'].size(0) <= 4), actual L['x'].size(0) is 6", "each way"),
    (written, [(ones(3), ones(3)), (_base[:3], _base[:3])],
     "L['a'] and L['b'] do not share memory, actual they do", "clone"),
    (written, [(_memory, _memory), (ones(3), ones(3))], "L['b'] is L['a'], actual two objects", "same one"),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "calls", "reason", "advice"), REASONS, ids=[r[2][:60] for r in REASONS])
def test_reason(fn, calls, reason, advice):
    last = recompiles(fn, *calls)[-1]
    assert last.reasons[0] == reason
    assert advice in last.remedy


def test_global():
    global STEP
    compiled = graphwright.compile(stepped, backend="eager")
    compiled(X)
    STEP = 2.5
    try:
        with events.collected(events.Recompiled) as found:
            compiled(X)
    finally:
        STEP = 2
    assert found[0].reasons == ("G['STEP'] == 2, actual 2.5",)


def test_closure():
    for scale in (2, "ab"[:0] or 3.5):
        with events.collected(events.Recompiled) as found:
            graphwright.compile(maker(scale), backend="eager")(X)
    assert found[0].reasons == ("closure[scale].cell_contents == 2, actual 3.5",)


@pytest.mark.parametrize(
    ("enter", "reason"),
    [
        (torch.no_grad, "grad mode: expected True, actual False"),
        (lambda: torch.autocast("cpu"), "autocast on cpu: expected False, actual True"),
        (lambda: torch.device("meta"), "torch function modes (a default device is one): expected 0, actual 1"),
    ],
)
def test_state(enter, reason):
    compiled = graphwright.compile(plus, backend="eager")
    compiled(X)
    with enter(), events.collected(events.Recompiled) as found:
        compiled(X)
    assert found[0].reasons == (reason,)
    assert found[0].failures[0].kind == "global state"


def test_latest_entry_first():
    found = recompiles(plus, *[(ones(n),) for n in (2, 3, 4)], dynamic=False)
    assert found[-1].reasons == (
        "tensor 'L['x']' size mismatch at index 0. expected 3, actual 4",
        "tensor 'L['x']' size mismatch at index 0. expected 2, actual 4",
    )
    assert "dynamic=False" in found[-1].remedy


def test_entry_used_last_is_first():
    compiled = graphwright.compile(plus, backend="eager", dynamic=False)
    for n in (2, 3, 2):
        compiled(ones(n))
    with events.collected(events.Recompiled) as found:
        compiled(ones(4))
    assert [f.expected for f in found[0].failures] == [2, 3]


def test_log(capsys):
    with config.patch(logs="recompiles"):
        recompiles(plus, *[(ones(n),) for n in (2, 3, 4)], dynamic=False)
    text = capsys.readouterr().err
    first, second = text.split("[graphwright recompiles] ")[1:]
    assert first.startswith("recompiling plus (")
    assert "\n  - tensor 'L['x']' size mismatch at index 0. expected 3, actual 4\n  - tensor 'L['x']' size" in second
    assert "\n  What to do: dynamic=False" in second


def test_as_data():
    compiled = graphwright.compile(times, backend="eager")
    compiled(X, 3)
    compiled(X, 4)
    report = graphwright.explain_recompiles(compiled)
    [recompile] = report.recompiles
    [failure] = recompile.failures
    assert (failure.kind, failure.source, failure.expected, failure.actual) == ("value", "L['n']", 3, 4)
    assert (recompile.function, recompile.backend, recompile.captured) == ("times", "eager", True)
    assert report.captures == report.caches[0].entries == 2
    assert "times (" in str(report)
    assert "L['n'] == 3, actual 4" in str(report)
    assert "What to do: the number varies" in str(report)


@pytest.mark.parametrize(
    ("fn", "calls", "condition"),
    [
        (plus, [(ones(2),), (ones(3),)], "L['x'].size(0) == 2"),
        (plus, [(X,), (X.double(),)], "L['x'].dtype == torch.float32"),
        (longer, [(X, [1, 2]), (X, [1])], "len(L['items']) == 2"),
    ],
)
def test_condition(fn, calls, condition):
    assert recompiles(fn, *calls)[-1].failures[0].condition == condition


def test_what_the_program_fixed_is_told_with_its_place():
    def fixing(x):
        return x + int(str(x.shape[0]))

    compiled = graphwright.compile(fixing, backend="eager")
    for n in (2, 3, 6):
        compiled(ones(n))
    report = graphwright.explain_recompiles(compiled)
    [(source, where)] = report.caches[0].fixed
    assert source == "L['x'].size(0)"
    assert "int(str(x.shape[0]))" in where
    last = report.recompiles[-1]
    assert str(last.failures[0]) == "(L['x'].size(0) == 3), actual L['x'].size(0) is 6"
    assert "int(str(x.shape[0]))" in last.advice
    assert "is fixed, as the program asks for its value" in str(report)


def test_functions_that_resume_are_part_of_it():
    def breaking(x, n):
        y = x * 2
        graphwright.graph_break()
        return y * n

    compiled = graphwright.compile(breaking, backend="eager")
    compiled(X, 2)
    compiled(X, 3.5)
    [recompile] = graphwright.explain_recompiles(breaking).recompiles
    assert recompile.function.startswith("resume_in_breaking_at_")
    assert str(recompile.failures[0]) == "L['n'] == 2, actual 3.5"


class Callable:
    def __call__(self, x):
        return x + 1


def kinds():
    module = torch.nn.Linear(2, 2)
    yield graphwright.compile(module, backend="eager"), module
    yield graphwright.compile(functools.partial(plus), backend="eager"), plus
    yield graphwright.compile(Config(2).scaled, backend="eager"), Config.scaled
    yield graphwright.compile(Callable(), backend="eager"), Callable()


def test_kinds_of_callables():
    for compiled, original in kinds():
        graphwright.reset()
        compiled(ones(3, 2))
        compiled(ones(4, 2))
        for fn in (compiled, original):
            [recompile] = graphwright.explain_recompiles(fn).recompiles
            assert "size mismatch at index 0. expected 3, actual 4" in str(recompile)


class Loud:
    """Says so when it is looked at."""

    def __init__(self, number):
        self.number = number

    def __repr__(self):
        raise RuntimeError("looked at")

    __str__ = __len__ = __bool__ = __iter__ = __repr__

    def __getattr__(self, name):
        raise RuntimeError(f"asked for {name}")


class LoudInt(int):
    def __repr__(self):
        raise RuntimeError("looked at")


class LoudList(list):
    __len__ = __iter__ = __repr__ = Loud.__repr__


class LoudEnum(enum.Enum):
    A = 1
    B = 2

    def __repr__(self):
        raise RuntimeError("looked at")

    __str__ = __repr__


def compares(x, y):
    return x + 1 if y is LoudEnum.A else x + 2


def typed(x, y):
    return x + 1 if type(y) is Loud else x + 2


def keyed(x, d):
    return x + d[LoudEnum.A]


@pytest.mark.parametrize(
    ("fn", "values"),
    [
        (typed, [Loud(1), LoudInt(3), 4, LoudEnum.A, LoudList([1]), [1], None, Loud, Loud.__repr__]),
        (compares, [LoudEnum.A, LoudEnum.B, 3, Loud(2), None, Loud(1).__repr__]),
        (keyed, [{LoudEnum.A: 1}, {LoudEnum.A: 2}, {LoudEnum.B: 1, LoudEnum.A: 2}, {LoudEnum.A: 2.5}]),
    ],
)
def test_reports_run_no_code_of_the_program(fn, values, capsys):
    compiled = graphwright.compile(fn, backend="eager")
    with config.patch(logs="recompiles"):
        for value in values:
            assert torch.equal(compiled(X, value), fn(X, value))
    assert "[graphwright recompiles]" in capsys.readouterr().err


def test_the_stance_against_recompiles_says_why():
    compiled = graphwright.compile(plus, backend="eager")
    compiled(ones(2))
    with graphwright.set_stance("fail_on_recompile"), pytest.raises(Exception, match="expected 2, actual 3"):
        compiled(ones(3))


def test_what_has_no_code_is_refused():
    with pytest.raises(CompileArgumentError, match="has no Python code"):
        graphwright.explain_recompiles(len)


def test_nothing_captured():
    assert str(graphwright.explain_recompiles(lambda x: x)) == "nothing was captured since the last reset"


def test_reset_forgets():
    recompiles(plus, (ones(2),), (ones(3),))
    graphwright.reset()
    assert graphwright.explain_recompiles(plus).caches == ()


def test_reports_keep_nothing_alive():
    kept = Config(2)
    compiled = graphwright.compile(scaled, backend="eager")
    compiled(X, Config(3))
    compiled(X, kept)
    compiled(X, None)
    report = graphwright.explain_recompiles(scaled)
    alive = weakref.ref(kept)
    del kept
    gc.collect()
    assert alive() is None
    assert len(report.recompiles) == 2
