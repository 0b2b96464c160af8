"""Tracebacks, stacks and whatever else looks at frames show the user's frames, one each, as in eager."""

from __future__ import annotations

import inspect
import io
import linecache
import logging
import sys
import traceback
import warnings

import pytest
import torch

import graphwright
from graphwright import events
from graphwright.testing import CompileCounter

pytestmark = pytest.mark.e2e


def entries(error):
    """File, line, function and columns of each traceback entry, outermost first, without those of the test's caller."""
    found = traceback.extract_tb(error.__traceback__)[1:]
    return [(f.filename, f.lineno, f.name, f.colno, f.end_colno) for f in found]


def raised(fn, *args):
    try:
        fn(*args)
    except Exception as error:
        return error
    raise AssertionError(f"{fn} raised nothing")


def same_traceback(fn, *args):
    """Compare what a function raises in eager, when captured, and from the cache."""
    want = raised(fn, *args)
    compiled = graphwright.compile(fn, backend="eager")
    for _ in range(2):
        got = raised(compiled, *args)
        assert type(got) is type(want)
        assert str(got) == str(want)
        assert entries(got) == entries(want)
        if want.__context__ is not None:
            assert entries(got.__context__) == entries(want.__context__)
    return want


def after_one_break(x):
    y = x + 1
    print(end="")
    y = y * 2
    raise ValueError("after")


def after_many_breaks(x):
    x = x + 1
    print(end="")
    x = x + 2
    print(end="")
    x = x + 3
    print(end="")
    x = x + 4
    print(end="")
    raise ValueError("after many")


def in_eager_part(x):
    x = x + 1
    int("no number")
    return x + 1


def fails(text):
    return int(text)


def in_called_function(x):
    x = x + 1
    print(end="")
    x = x * 2
    fails("no number")
    return x


def in_inlined_function_after_a_break(x):
    def inner(x):
        x = x + 1
        print(end="")
        x = x + 2
        print(end="")
        raise KeyError("inner")

    x = x * 2
    y = inner(x)
    return y + 1


def in_a_branch(x):
    if x.sum() > 0:
        x = x + 1
        print(end="")
        return x + fails("positive")
    raise ValueError("negative")


def through_finally(x):
    try:
        x = x + 1
        print(end="")
        x = x + 1
        raise ValueError("with finally")
    finally:
        print(end="")


def another_in_a_handler(x):
    x = x + 1
    print(end="")
    try:
        x = x + 1
        fails("first")
    except ValueError:
        raise KeyError("second")


def from_another(x):
    x = x + 1
    print(end="")
    try:
        fails("first")
    except ValueError as error:
        print(end="")
        raise KeyError("second") from error


def in_a_with_block(x):
    with torch.no_grad():
        x = x + 1
        print(end="")
        x = x + 1
        raise ValueError("in with")


def in_a_loop(x):
    for i in range(4):
        x = x + i
        print(end="")
        if i == 2:
            raise ValueError(i)
    return x


def in_a_lambda(x):
    x = x + 1
    print(end="")
    return (lambda y: y + fails("lambda"))(x)


def with_cells(x):
    text = "cell"

    def inner():
        return fails(text)

    x = x + 1
    print(end="")
    x = x + 1
    return inner()


def failing_operation(x):
    print(end="")
    y = x + 1
    print(end="")
    return y.reshape(7, 7)


CASES = [
    after_one_break,
    after_many_breaks,
    in_eager_part,
    in_called_function,
    in_inlined_function_after_a_break,
    in_a_branch,
    through_finally,
    another_in_a_handler,
    from_another,
    in_a_with_block,
    in_a_loop,
    in_a_lambda,
    with_cells,
    failing_operation,
]


@pytest.mark.parametrize("fn", CASES, ids=lambda f: f.__name__)
def test_tracebacks_are_those_of_eager(fn):
    same_traceback(fn, torch.ones(3))


def test_the_other_branch_has_its_own_line():
    same_traceback(in_a_branch, -torch.ones(3))


def test_the_printed_traceback_is_the_same():
    def printed(fn):
        out = io.StringIO()
        traceback.print_exception(raised(fn, torch.ones(3)), file=out)
        lines = out.getvalue().splitlines()
        return [line for line in lines if not line.strip().startswith(("fn(*args)", "^^^"))]

    assert printed(graphwright.compile(after_many_breaks, backend="eager")) == printed(after_many_breaks)


# ---------------------------------------------------------------- stacks


def stack_names():
    return [f.f_code.co_name for f in _frames(sys._getframe(1))]


def _frames(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back


def stack_lines():
    return [(f.function, f.lineno) for f in inspect.stack()[1:3]]


def looks_at_stack(x):
    first = stack_names()
    x = x + 1
    second = stack_names()
    x = x * 2
    third = stack_names()
    lines = stack_lines()
    return first, second, third, lines, sys._getframe().f_code.co_name, x


def test_the_stack_is_as_deep_as_in_eager():
    compiled = graphwright.compile(looks_at_stack, backend="eager")

    def run(fn):
        *found, x = fn(torch.ones(3))
        lines = found[3]
        assert torch.equal(x, torch.full((3,), 4.0))
        return found[:3], lines[:1], found[4]

    want = run(looks_at_stack)
    assert run(compiled) == want
    assert run(compiled) == want


def helper_that_warns(level):
    warnings.warn("look here", stacklevel=level)


def warns(x, level):
    x = x + 1
    print(end="")
    x = x + 1
    helper_that_warns(level)
    return x


def calls_warns(x, level):
    x = x + 1
    print(end="")
    y = warns(x, level)
    return y * 2


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_warnings_point_at_the_same_line(level):
    def where(fn):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            fn(torch.ones(3), level)
        return [(w.filename, w.lineno if level < 4 else None) for w in found]

    compiled = graphwright.compile(calls_warns, backend="eager")
    assert where(compiled) == where(calls_warns)
    assert where(compiled) == where(calls_warns)


def logs(x):
    x = x + 1
    print(end="")
    x = x + 1
    logging.getLogger("graphwright-test").warning("look here")
    return x


def test_log_records_name_function_and_line(caplog):
    def where(fn):
        caplog.clear()
        fn(torch.ones(3))
        return [(r.funcName, r.lineno, r.pathname) for r in caplog.records]

    compiled = graphwright.compile(logs, backend="eager")
    want = where(logs)
    assert len(want) == 1
    assert where(compiled) == want
    assert where(compiled) == want


# ---------------------------------------------------------------- locals and recursion


def local_names(x):
    cell = 1

    def inner():
        return cell

    x = x + 1
    print(end="")
    x = x + inner()
    print(end="")
    return {k: v for k, v in locals().items() if k != "x"}, x


def test_locals_shows_what_cells_hold():
    compiled = graphwright.compile(local_names, backend="eager")
    for _ in range(2):
        found, x = compiled(torch.ones(3))
        assert set(found) == {"cell", "inner"}
        assert found["cell"] == 1
        assert torch.equal(x, torch.full((3,), 3.0))


def deep(x, n):
    x = x + 1
    print(end="")
    x = x + 1
    if n == 0:
        return x
    print(end="")
    return deep(x, n - 1)


def test_recursion_gets_as_deep_as_in_eager():
    compiled = graphwright.compile(deep, backend="eager")
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(1200)
        assert torch.equal(compiled(torch.zeros(1), 300), deep(torch.zeros(1), 300))
    finally:
        sys.setrecursionlimit(limit)


# ---------------------------------------------------------------- variables that are no longer read


def fails_with_variables(x):
    number, text = 3, "words"

    def unused():
        return number

    x = x + 1
    print(end="")
    x = x + 1
    int(text)
    return x


def test_a_traceback_shows_variables_that_are_no_longer_read():
    def found(fn):
        frame = raised(fn, torch.ones(3)).__traceback__.tb_next.tb_frame
        return {k: v for k, v in frame.f_locals.items() if not isinstance(v, torch.Tensor) and k != "unused"}

    compiled = graphwright.compile(fails_with_variables, backend="eager")
    want = found(fails_with_variables)
    assert want == {"number": 3, "text": "words"}
    assert found(compiled) == want
    assert found(compiled) == want


# ---------------------------------------------------------------- tracing


def traced(x):
    x = x + 1
    y = x * 2
    print(end="")
    return y + 1


def lines_seen(fn, x):
    seen = []

    def trace(frame, event, arg):
        if frame.f_code.co_name == "traced":
            seen.append((event, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        fn(x)
    finally:
        sys.settrace(before)
    return seen


def test_a_trace_function_sees_each_line():
    compiled = graphwright.compile(traced, backend="eager")
    compiled(torch.ones(3))
    assert lines_seen(compiled, torch.ones(3)) == lines_seen(traced, torch.ones(3))


# ---------------------------------------------------------------- exceptions made in captured code


def carries_a_chain(x):
    error = ValueError("outer")
    error.__cause__ = KeyError("inner")
    x = x + 1
    print(end="")
    return error, x


def carries_fields(x):
    error = SyntaxError("bad", ("file.py", 3, 4, "text"))
    x = x + 1
    return (error.msg, error.filename, error.lineno), x


def sets_a_wrong_traceback(x):
    error = ValueError("none")
    try:
        error.__traceback__ = 5
    except TypeError as wrong:
        return str(wrong), x + 1
    return None, x


class Meta(type):
    def __subclasscheck__(cls, other):
        raise AssertionError("an except clause does not ask")


class Odd(Exception, metaclass=Meta):
    pass


def catches_past_an_odd_class(x):
    try:
        raise ValueError("mine")
    except Odd:
        return 1, x
    except ValueError:
        return 2, x + 1


@pytest.mark.parametrize("fn", [carries_fields, sets_a_wrong_traceback, catches_past_an_odd_class])
def test_exceptions_are_made_as_in_eager(fn):
    compiled = graphwright.compile(fn, backend="eager")
    want, y = fn(torch.ones(3))
    for _ in range(2):
        got, z = compiled(torch.ones(3))
        assert got == want
        assert torch.equal(y, z)


def test_a_rebuilt_exception_keeps_its_cause():
    error, _ = graphwright.compile(carries_a_chain, backend="eager")(torch.ones(3))
    assert isinstance(error.__cause__, KeyError)
    assert error.__suppress_context__


# ---------------------------------------------------------------- iterators that refuse changes


def changes_while_iterating(x):
    items = {1: 1}
    try:
        for key in items:
            print(end="")
            items[key + 1] = 1
            x = x + 1
    except RuntimeError as error:
        return str(error), x
    return None, x


def goes_on_iterating(x):
    items = {i: i for i in range(5)}
    iterator = iter(items.items())
    next(iterator)
    x = x + 1
    print(end="")
    found = [next(iterator)]
    items[7] = 7
    try:
        next(iterator)
    except RuntimeError as error:
        found.append(str(error))
    return found, x


class Dies:
    died = 0

    def __del__(self):
        Dies.died += 1


def drops_one(x):
    Dies()
    return Dies.died > 0, x + 1


@pytest.mark.parametrize("fn", [changes_while_iterating, goes_on_iterating, drops_one])
def test_side_effects_of_dropping_and_changing(fn):
    compiled = graphwright.compile(fn, backend="eager")
    Dies.died = 0
    want, y = fn(torch.ones(3))
    for _ in range(2):
        Dies.died = 0
        got, z = compiled(torch.ones(3))
        assert got == want
        assert torch.equal(y, z)


# ---------------------------------------------------------------- captures in vain


def many_prints(count):
    source = "def fn(thing, more):\n" + "    print(end='')\n    thing += 1\n" * count + "    return more(thing)\n"
    namespace = {"__name__": "user_code"}
    exec(source, namespace)
    return namespace["fn"]


def test_a_function_without_tensors_is_left_alone_after_some_breaks():
    fn = many_prints(30)
    compiled = graphwright.compile(fn, backend="eager")
    with events.collected(events.FrameStarted) as started, events.collected(events.FrameSkipped) as skipped:
        assert compiled(1, str) == fn(1, str)
    assert len(started) <= 9
    assert any("none is in sight" in event.reason for event in skipped)


def test_a_function_with_a_tensor_in_sight_is_captured_to_its_end():
    source = "def fn(x):\n" + "    print(end='')\n" * 20 + "    return x * 2 + 1\n"
    namespace = {"__name__": "user_code"}
    exec(source, namespace)
    counter = CompileCounter()
    compiled = graphwright.compile(namespace["fn"], backend=counter)
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))
    assert counter.frame_count == 1


def test_a_long_loop_over_numbers_runs_in_eager():
    def fn(x):
        total = 0
        for i in range(100_000):
            total += i
        return x + total

    counter = CompileCounter()
    compiled = graphwright.compile(fn, backend=counter)
    assert torch.equal(compiled(torch.zeros(1)), fn(torch.zeros(1)))
    assert counter.frame_count == 1


def test_capture_leaves_the_line_cache_alone():
    linecache.clearcache()
    graphwright.compile(after_one_break_that_returns, backend="eager")(torch.ones(3))
    assert not any(name.startswith(torch.__path__[0]) for name in linecache.cache)


def after_one_break_that_returns(x):
    x = x + 1
    print(end="")
    return x * 2
